#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/lane.h"
#include "daemon/server/content.h"
#include "daemon/server/dependents.h"
#include "daemon/store/payload_parts.h"
#include "daemon/store/ticket.h"

namespace locksley::daemon {

class Wakeup;
struct Tenant;

// A connection that waits for news of a batch: a member of what waits, in BatchRecord::waiters meanwhile.
struct BatchWaiter {
  Wakeup& wakeup;
  bool is_told = false;   // woken, and has not looked since
  std::size_t place = 0;  // among the waiters
};

// Instants of everything that the server times. Passed in, so that tests own the clock.
using Instant = std::chrono::steady_clock::time_point;
inline Instant now() { return std::chrono::steady_clock::now(); }
inline constexpr Instant kNever = Instant::max();

// A batch as the server knows it: the scheduler's record, and what the connections need beside it. It derives
// from Batch so that a notification of the scheduler leads here without a look-up by id.
//
// Owned by shared_ptr like every Batch; the registry holds one while the batch is known by its id. Of the
// members below, all but row_waiters belong to the I/O thread, also where the batch itself is shared with
// workers.
class BatchRecord final : public Batch {
 public:
  // Which command made it: decides what may be done with it.
  enum class Origin : std::uint8_t { kSubmit, kOpen, kRun };

  BatchRecord(BatchOptions options, Handler& handler, std::unique_ptr<PayloadSource> payloads,
              BatchObserver* observer, Lane& lane_in, Origin origin_in, std::uint64_t sequence_in = 0,
              std::unique_ptr<BatchJournal> journal = nullptr)
      : Batch(std::move(options), handler, std::move(payloads), observer, std::move(journal)),
        lane(&lane_in),
        origin(origin_in),
        sequence(sequence_in) {}

  Lane* lane;  // that runs its jobs; another, if its handler becomes one of another kind
  const Origin origin;
  // By it LIST orders, and the store knows it; grows with each batch accepted. 0: a RUN of which nothing is
  // ever due, and whose handler is there for good.
  const std::uint64_t sequence;

  // A RUN of which nothing is due. Constant once a worker may have it.
  bool only_end_is_news = false;

  // Whether it is in the store.
  bool is_stored() const { return journal() != nullptr; }
  // Of the last that was written of it; 0: nothing was.
  Ticket ticket = 0;
  // Bytes that it takes in the store, as far as they are counted: payloads, and all with results.
  std::uint64_t stored_payload_bytes = 0;
  std::uint64_t stored_bytes = 0;
  PayloadParts stored_parts = PayloadParts::kUnknown;
  // What gathered when its end was heard of: once that is written, its end is. 0: it is not over.
  Ticket end_ticket = 0;
  bool is_rejected = false;  // the store could not take it: it goes as soon as it is over
  // What commands have made of it, for the store.
  bool is_closed = false;
  std::string stop_reason;
  bool has_no_deadline = false;  // RETRY let it go on when it was over: its deadline was for before
  // What it waits for before it starts.
  Waits waits;
  // Whose it is: by options().tenant, once the registry knows the batch.
  Tenant* tenant = nullptr;
  // Jobs and payload bytes as the limits count them now; both 0 once the batch is over.
  std::uint64_t counted_jobs = 0;
  std::uint64_t counted_bytes = 0;
  std::uint64_t quota_bytes = 0;  // as the tenant's quota counts them
  bool is_counted = false;        // among the tenant's active batches
  bool is_active = true;          // the registry has not yet seen that it is over

  bool id_is_chosen = false;  // by the client, who may submit it again

  // What came in, to tell whether the same id comes with the same jobs.
  Content content;

  // How long it stays when it is over.
  std::chrono::milliseconds retain{0};
  // The connection that streams it in; 0: none, or it has gone.
  std::uint64_t opener = 0;

  // Instants at which something is due, kNever while nothing is.
  Instant deadline_at = kNever;
  Instant close_at = kNever;
  Instant start_at = kNever;
  Instant retry_at = kNever;
  Instant forget_at = kNever;
  Instant progress_at = kNever;

  // What its subscribers were told.
  bool started_told = false;
  Instant progress_told{};

  // Connections that wait, each for a row, for the end, or for rows that are being read from the disk; each
  // removes itself. In no order.
  struct Waiter {
    BatchWaiter* who;
    std::uint64_t row;
  };
  static constexpr std::uint64_t kItsEnd = ~std::uint64_t{0};
  static constexpr std::uint64_t kReadRows = kItsEnd - 1;
  std::vector<Waiter> waiters;
  bool is_waking = false;  // some of them are yet to be woken
  // How many of them wait for results that the batch does not have yet. Read by workers, after they published
  // some; counted before the waiter looks whether there are any, so that one of the two sees the other.
  std::atomic<std::uint32_t> row_waiters{0};
};

}  // namespace locksley::daemon
