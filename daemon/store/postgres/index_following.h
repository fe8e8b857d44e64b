// Keeps a copy of the index while another daemon writes it. Internal to daemon/store/postgres.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/index_copy.h"
#include "daemon/store/postgres/node_watch.h"
#include "daemon/store/postgres/primary_finder.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Reads the rows of the index once, and then the lists of the batches that the active daemon
// changes (ChangeLists). A batch that was changed is not read again at once, since it will soon
// change again, or be deleted: only while there are very many, and for the rest when this daemon
// takes over. So a takeover reads the latest changes only, and not the whole index.
//
// Whatever it has read may be old, or come from a server that is no longer the one to write. It
// counts only if at the end the same connection sees that this daemon is the active one, and that
// no list is missing:
//
// - The list of a group is written with it. The groups of a daemon are numbered, and its row has
//   the number of the last one. So a missing list is noticed, whatever the reason: then the copy is
//   given up, and read again later. A group that has failed may leave a gap, which counts as a
//   missing list.
// - Rows are read after the number from which on lists are read. So batches that are changed
//   meanwhile are in a later list, and are read again.
// - The transaction in which this daemon took over is later in the log of that server than all that
//   was read before from it, and is confirmed: so nothing of that is lost with a server. An old
//   primary may have that transaction, too; but it does not have the epoch that this daemon has
//   begun since on the server that it will write.
//
// One thread at a time, but for stop(). catch_up() and finish() block on the network, for 2 s at
// most at each statement; catch_up() also while it connects (PrimaryFinder).
class IndexFollowing {
 public:
  // How long it makes no attempt; guesses, because to read the whole index is a burden for the
  // server.
  struct Pauses {
    std::chrono::milliseconds after_loss = std::chrono::seconds(30);
    std::chrono::milliseconds if_busy = std::chrono::minutes(5);  // so much changes that it is of no use
  };

  // For the daemon `own`. `kinds`: of the rows that are copied, ascending. `session`: the name of
  // the connection. Both references outlive this.
  IndexFollowing(PrimaryFinder& primary, std::int32_t own, std::string session, std::string kinds,
                 spdlog::logger& log, Pauses pauses);

  // Reads the changes since the last call; the first call reads all rows. An error is logged, and
  // the next calls try again.
  void catch_up();
  // catch_up() returns soon, now and later. Any thread.
  void stop() { is_stopping_ = true; }
  // How many the copy has; none: there is no copy.
  std::optional<std::uint64_t> batches() const;

  // Once this daemon is the active one and has begun an epoch, both of which the database has
  // confirmed, and before it has written rows: reads the remaining changes. Null: there is no
  // usable copy.
  std::unique_ptr<IndexCopy> finish();

 private:
  static constexpr std::int32_t kNoNode = 0;

  // False: the copy is of no use any more.
  using StillGood = PgExpected<bool>;

  PgExpected<Result> query(const std::string& sql, const Parameters& parameters) {
    return connection_->run(sql, parameters, now() + kPatience);
  }
  PgExpected<void> connect();
  PgExpected<void> advance();
  void begin(const NodeRow& active, const std::vector<NodeRow>& rows);
  // Whether another daemon has been active that was not when this began.
  bool has_new_active(const std::vector<NodeRow>& rows) const;
  // Whether the group with this number, the last one, has a list.
  PgExpected<bool> is_listed(std::int64_t committed);
  // Unless the active daemon does not know yet that this one stands by: it writes, and no lists.
  PgExpected<void> read_all(std::int64_t committed);
  // The lists of all groups up to `committed` and perhaps further.
  StillGood read_lists(std::int64_t committed);
  // Reads at most so many of the changed batches, in the order of their numbers, and after the last
  // ones the first. So those that change again and again do not keep the others from being read.
  PgExpected<void> read_batches(std::size_t most);
  StillGood read_rest();
  // So much that all is read as fast.
  bool has_changed_too_much() const;
  // Without the copy. The next attempt comes after the pause.
  void give_up(std::string_view why, std::chrono::milliseconds pause);

  static constexpr auto kPatience = std::chrono::seconds(2);  // guess: a takeover may wait for one statement
  // If there are more changed batches, so many are read again at each check.
  static constexpr std::size_t kMostChanged = 10'000;
  static constexpr std::size_t kReadAtOnce = 2'000;
  static constexpr std::int64_t kListsAtOnce = 256;
  // Of a larger part of all batches, all are read as fast: a batch that is found by its key takes
  // the server 8 times as long.
  static constexpr std::size_t kMostShare = 8;

  PrimaryFinder& primary_;
  const std::int32_t own_;
  const std::string session_;
  const std::string kinds_;
  spdlog::logger& log_;
  const Pauses pauses_;
  std::atomic<bool> is_stopping_ = false;

  std::unique_ptr<PgConnection> connection_;  // null: there is none
  std::int32_t active_ = kNoNode;             // the daemon that is followed
  std::set<std::int32_t> were_active_;        // when that began, this one included
  std::unique_ptr<IndexCopy> copy_;           // null: nothing was read yet
  std::int64_t number_ = 0;                   // of the last group whose list was read
  std::set<std::int64_t> changed_;            // batches of which the copy may be old
  std::int64_t next_ = 0;                     // the next of them to be read, or one after it
  std::optional<std::int64_t> seen_;          // the number of the last group when read_all() was called last
  // A list was missing. Then the whole index is read only once the active daemon is seen to write
  // lists.
  bool has_missed_ = false;
  Instant paused_until_{};
};

}  // namespace locksley::daemon
