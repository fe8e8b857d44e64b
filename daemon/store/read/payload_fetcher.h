// Payloads for executors while the store is a database on another machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/read/reader.h"
#include "daemon/store/read/stored_chunk.h"

namespace locksley::daemon {

class Engine;
class Reachability;

// Reads payloads for executors that must not wait for a database on another machine: those of the
// pool, and the thread that serves all worker machines. README.md, "Payloads on a server", has the
// design.
//
// An executor asks for a payload; threads of this object read it. If the payload comes at once, the
// executor has waited for it. If not, the executor serves other batches, the batch pauses, and the
// fetcher calls a function when the payload is there. The payload stays here, in bounded memory,
// until the executor that runs its job has asked again.
//
// Users share that memory. While it is full, the user that holds most gives up its oldest row for
// another user that wants a row and
//
// - holds nothing,
// - or holds less than the first one does without that row,
// - or holds less than half as much as the first one, whose only row it is.
//
// An evicted row is read again when it is wanted. So users that want more than there is room for
// come to hold about the same. (McKenney, "Stochastic fairness queueing", 1990, takes room from the
// longest queue likewise.) Any other user waits until executors have taken rows of its own. A row
// that waits for room takes up no thread, so the readings of other users go on.
//
// A member of the Store; the Engine and the Reachability outlive it, and it outlives all Wants. Any
// thread may call anything, but on_arrival() comes before all other calls. find() waits for
// Options::patience at most; stop() cuts off the readings that are under way, and waits for some
// seconds if one of them connects; nothing else blocks. A payload that cannot be read fails as
// find() says. So does a payload that the server, which replies to other questions, has not sent
// within Options::longest_reading.
class PayloadFetcher {
 public:
  struct Options {
    // How long find() waits. A guess between two times. A row of 128 KiB from a server in the same
    // network takes some 1 ms, so there nearly no batch pauses. And five times the default quantum
    // is so short that no other batch notices it.
    std::chrono::milliseconds patience{5};
    // Each thread has a connection of its own. A guess: one large payload then does not hold up all
    // others, and a quick server is kept busy.
    std::size_t threads = 4;
    // How long the first reading of a batch waits for its row. A reading that has got no reply is
    // followed by another, which waits twice as long, up to longest_reading. Guesses: 6 MiB come
    // within longest_reading over a link of 10 KB/s.
    std::chrono::milliseconds first_reading = ChunkPatience::kFirst;
    std::chrono::milliseconds longest_reading = std::chrono::minutes(10);
    // How many bytes of payloads of all users may lie here until executors ask for them. Above that
    // a row is read only if another one is evicted. A guess. Each thread may exceed it by a
    // payload.
    std::uint64_t most_held_bytes = std::uint64_t{64} << 20;
    // A row that has lain here for so long is evicted while other rows of its user wait for room:
    // its batch may be paused, or its job may run elsewhere. A guess: much longer than the pause of
    // a batch that waits for payloads.
    std::chrono::milliseconds longest_held{10'000};
    // The only row of a user makes room for other users once it has lain here for so long.
    // Otherwise a row that is larger than all of the room would be read again and again. A guess:
    // longer than a batch takes to come back if it need not wait for slots.
    std::chrono::milliseconds shortest_held{1000};
  };

  // The requests of the executors of one batch. Made by open(); its owner calls close() at the end.
  class Wants;
  using SharedWants = std::shared_ptr<Wants>;

  PayloadFetcher(Engine& engine, Reachability& reachability, Options options)
      : engine_(engine), reachability_(reachability), options_(options), readers_(options.threads) {}
  ~PayloadFetcher() { stop(); }
  PayloadFetcher(const PayloadFetcher&) = delete;
  PayloadFetcher& operator=(const PayloadFetcher&) = delete;

  // Starts the first of the threads. Throws std::system_error. Called once, before payloads are
  // fetched.
  void start() { readers_.start(); }
  // `on_arrival`: called by a reading thread, with the number of a batch for which find() has
  // returned null, once find() need not return null any more.
  void on_arrival(std::function<void(std::uint64_t sequence)> on_arrival) {
    on_arrival_ = std::move(on_arrival);
  }
  // `user`: whose batch it is; users are served round robin, and share the memory.
  SharedWants open(std::uint64_t sequence, Reader::User user) const;

  // The row with the payload of job `index`; it stays here until drop(). Null: the row is on its
  // way, or cannot be read now. Waits until `until` at most. Throws std::runtime_error as
  // read_chunk() does; with kLast, the job ends with that error, and the row is read anew when it
  // is wanted again.
  enum class Look : std::uint8_t { kFirst, kLast };
  SharedChunk find(const SharedWants& wants, std::uint64_t index, Look look, Instant until)
      LOCKSLEY_EXCLUDES(mutex_);
  // Removes the row, because the executor has it.
  void drop(Wants& wants, const StoredChunk& chunk) LOCKSLEY_EXCLUDES(mutex_);
  // Drops all requests of `wants` and all their payloads, also those that are being read.
  void close(Wants& wants) LOCKSLEY_EXCLUDES(mutex_);
  std::chrono::milliseconds patience() const { return options_.patience; }

  // From now on find() returns null. Ends the readings that are under way.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

 private:
  struct Want;
  using SharedWant = std::shared_ptr<Want>;
  // A row that lies here.
  struct Held {
    Wants* wants;
    SharedWant want;
    Instant since;
  };
  // A row whose reading has not begun.
  struct Waiting {
    SharedWants wants;
    SharedWant want;
  };
  // The rows and tasks of one user.
  struct Part {
    std::uint64_t bytes = 0;     // of `held`, with the overhead
    std::list<Held> held;        // in the order of their arrival
    std::list<Waiting> waiting;  // in the order in which they are read
    // Tasks of readers_ that have not ended. Each reads the first row that waits. A task that finds
    // no room ends, and another is posted once there is room.
    std::size_t tasks = 0;
    bool is_empty() const { return held.empty() && waiting.empty() && tasks == 0; }
  };

  // At most so many rows of a batch are on their way, or lie here. Guess: as many as StoredPayloads
  // keeps.
  static constexpr std::size_t kMostWants = 8;
  static constexpr std::uint64_t kHeldOverhead = 512;  // bytes, for a row that lies here; guess

  // Requests the row with the payload of job `index`. Null: no more rows can be requested now.
  SharedWant ask(const SharedWants& wants, std::uint64_t index) LOCKSLEY_REQUIRES(mutex_);
  // Whether a payload that the user asks for now is likely to come within the patience.
  bool is_quick(Reader::User user) const LOCKSLEY_REQUIRES(mutex_);
  void remove(Wants& wants, const SharedWant& want) LOCKSLEY_REQUIRES(mutex_);
  void forget_if_empty(Reader::User user) LOCKSLEY_REQUIRES(mutex_);

  // ---- Room ----

  bool is_full() const LOCKSLEY_REQUIRES(mutex_) { return held_bytes_ >= options_.most_held_bytes; }
  // The part of the user that holds most. Null: there are no users.
  const Part* largest_part() const LOCKSLEY_REQUIRES(mutex_);
  // Needs: is_full(). The row that makes room now for another row of the user with the part
  // `asking`. Null: that user waits.
  const Held* row_to_evict(const Part& asking, const Part& largest) const LOCKSLEY_REQUIRES(mutex_);
  // Evicts rows until the user, which has a part, may read one more row. False: the user waits.
  bool make_room(Reader::User user) LOCKSLEY_REQUIRES(mutex_);
  // Posts tasks for the rows that wait, if they have room now. Called when rows were removed, when
  // a task has ended, and when an executor asks for a row that waits: a row may become evictable as
  // time passes.
  void post_tasks() LOCKSLEY_REQUIRES(mutex_);
  void post_task(Reader::User user) LOCKSLEY_REQUIRES(mutex_);

  // ---- A thread of readers_ ----

  // Runs one task.
  void read(Reader::User user) LOCKSLEY_EXCLUDES(mutex_);
  // Takes out the row that the task reads. None: no row waits, or there is no room.
  std::optional<Waiting> begin(Reader::User user) LOCKSLEY_REQUIRES(mutex_);
  void end_task(Reader::User user) LOCKSLEY_REQUIRES(mutex_);
  using Outcome = std::expected<SharedChunk, std::string>;  // null: the row cannot be read now
  // Called after a reading without a row. `is_late`: the reading has waited for all of `patience`.
  // Returns an error if there will be no other reading.
  Outcome after_failure(Wants& wants, std::chrono::milliseconds patience, bool is_late)
      LOCKSLEY_REQUIRES(mutex_);
  // Stores the outcome of a reading, and wakes the executors that wait for it. True: find() has
  // returned null for this payload already, and the row is still wanted.
  bool deliver(Wants& wants, const SharedWant& want, Outcome outcome) LOCKSLEY_REQUIRES(mutex_);

  Engine& engine_;
  Reachability& reachability_;
  const Options options_;
  std::function<void(std::uint64_t)> on_arrival_ = [](std::uint64_t) {};

  Mutex mutex_;  // taken before that of readers_
  std::stop_source stop_;
  CondVar arrived_;
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::size_t tasks_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // of all parts
  // How long the last reading took, of any user; and of each user that has ever read.
  Nanoseconds last_took_ LOCKSLEY_GUARDED_BY(mutex_){};
  std::unordered_map<Reader::User, Nanoseconds> last_took_of_ LOCKSLEY_GUARDED_BY(mutex_);
  // The parts that are not empty: those of a few users.
  std::map<Reader::User, Part> parts_ LOCKSLEY_GUARDED_BY(mutex_);
  std::uint64_t held_bytes_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // of all parts

  Reader readers_;  // last: its threads use all of the above
};

// Guarded by the fetcher's mutex, except held_bytes().
class PayloadFetcher::Wants {
 public:
  Wants(std::uint64_t sequence, Reader::User user, std::chrono::milliseconds patience)
      : sequence_(sequence), user_(user), patience_(patience) {}
  // Any thread; without a lock.
  std::uint64_t held_bytes() const { return held_bytes_; }

 private:
  friend class PayloadFetcher;

  const std::uint64_t sequence_;
  const Reader::User user_;
  std::vector<SharedWant> all_;               // the oldest first
  std::chrono::milliseconds patience_;        // of the next reading
  std::atomic<std::uint64_t> held_bytes_{0};  // written under the mutex; a hint for others
};

}  // namespace locksley::daemon
