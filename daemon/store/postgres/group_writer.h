// Writes a group to PostgreSQL in one round trip. Internal to daemon/store/postgres.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/postgres/change_lists.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/postgres_group.h"

namespace locksley::daemon {

// The outcome of a transaction.
struct Written {
  enum class Outcome : std::uint8_t {
    kDone,
    kFenced,   // this daemon's row is not alive: nothing was written, and nothing ever will be
    kRefused,  // the server said an error: nothing was written
    kLocked,   // another session has locked a table, or this daemon's row, for too long: nothing was written
    kUnknown,  // the connection was lost, or the server warned: it may be written or not, and may still become so
  };
  Outcome outcome = Outcome::kDone;
  EngineError error = {};    // of all but kDone
  std::string warning = {};  // of kDone: the server's warning, which does not change the outcome
};

// When the rows of a committed transaction are safe. kSafe: at once. kAhead: once a later
// transaction with kSafe is committed.
enum class Safety : std::uint8_t { kSafe, kAhead };

// Who writes: the daemon, by its row in locksley_node, in an epoch of that row. Each new connection
// for groups begins an epoch. From then on statements that an earlier connection sent have no
// effect: a paused session of the server may execute them long after the group, and later groups,
// were written again.
struct Writer {
  std::int32_t node = 0;
  std::int64_t epoch = 0;
  bool may_send_ahead = false;  // as Epoch has it
};

// The content of a transaction: a group; the generations into whose tables its rows go, some of
// which begin with it; and the list of its changes, if standby daemons want it.
struct Changes {
  const PostgresGroup& group;
  const Generations& generations;
  const std::vector<Generations::Span>& begun;
  const std::optional<ChangeList>& list;
};

// One transaction: the fence, which takes this daemon's row and says that the daemon lives, and the
// changes, none of which happens if that row is not alive, or in a later epoch. `number`: becomes
// the `committed` of the row; none: that stays, and there is no list.
//
// The row is held from the fence to the end, and there is no beat meanwhile. So values of more than
// kMostUnderFence bytes are sent before the fence, into a temporary table of the session, and the
// server copies them from there: however slow the link is, the daemon beats while they are sent.
//
// Blocks until the server has been silent for `silence`: it has taken no byte, or has not replied
// after it took all bytes. Unless the outcome is kDone or kFenced, the connection cannot be used
// any more.
Written write_group(PgConnection& connection, const Writer& writer, std::optional<std::int64_t> number,
                    const Changes& changes, Safety safety, std::chrono::milliseconds silence);
// The same with no changes: a beat.
Written write_beat(PgConnection& connection, const Writer& writer, std::chrono::milliseconds silence);
inline constexpr std::size_t kMostUnderFence = 1U << 20;

// An epoch, and the number of the last group of this daemon, which does not change any more but by
// groups of this epoch.
struct Epoch {
  std::int64_t number = 0;
  std::int64_t committed = 0;
  bool may_send_ahead = false;  // the role may create temporary tables
};
// Begins the next one, which is a beat, too; waits for a transaction of the last that is under way.
// The error is kFenced if the daemon's row is not alive. After any other, one may have begun or
// not.
PgExpected<Epoch> begin_epoch(PgConnection& connection, std::int32_t node, Instant deadline);

inline constexpr std::string_view kFencedWords = "another daemon has taken over";

// For the session that writes groups.
extern const char* const kWriterSettings;

}  // namespace locksley::daemon
