// Whether jobs may be accepted, and which account is charged for them.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/customers.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/payloads/batch_payloads.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "proto/argument_list.h"
#include "proto/batch_options.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class BatchNews;
class Retention;
class StoredBatches;

// Decides whether jobs may be accepted: by the limits that hold for all, by the quotas of their
// user, by the room in memory and in the store, and by the state of the daemon and its disk.
//
// All checks come first, and none has an effect that a refusal would have to undo. (Before it
// refuses anything for lack of room, it applies pending news of batches: jobs that have ended take
// no room.) Admitted jobs are charged at once. A Reservation holds the charge, and refunds it
// unless a batch takes it over. Only commit() makes room in the store: so a command that is
// refused, here or after its admission, evicts nothing, now or later.
//
// Owned by Batches. The I/O thread only. Nothing blocks. A refusal is the text of the error reply.
class Admission {
 public:
  using Refusal = std::string;

  // The charge for jobs that have been admitted and belong to no batch yet. All that a client makes
  // the daemon hold is charged here first. Move-only; its destructor refunds, unless it was
  // committed. The Admission outlives it: it is on the stack of the command that made it.
  class [[nodiscard]] Reservation {
   public:
    Reservation(Reservation&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          customer_(other.customer_),
          charge_(other.charge_),
          stored_bytes_(other.stored_bytes_),
          place_(other.place_),
          needs_memory_(other.needs_memory_) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation() {
      if (admission_ != nullptr) admission_->refund(*this);
    }

    // kStore: memory has no room for the payloads, so only the store keeps them.
    BatchPayloads::Place place_of_payloads() const { return place_; }
    // The batch has taken the jobs and their payloads, and holds the charge from now on. A new
    // batch is charged only for the batches that it really waits for, not for others that its
    // options name. Evicts batches that are over if the store needs the room, and payloads of such
    // batches if the new payloads need it.
    void commit(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

   private:
    friend class Admission;
    Reservation(Admission& admission, Customer& customer, const BatchCharges::Charge& charge,
                std::uint64_t stored_bytes, BatchPayloads::Place place, bool needs_memory);

    Admission* admission_;  // null: committed, or moved from
    Customer* customer_;    // which it uses
    BatchCharges::Charge charge_;
    std::uint64_t stored_bytes_;
    BatchPayloads::Place place_;
    bool needs_memory_;  // the store cannot keep the payloads in place of memory
  };
  using Admitted = std::expected<Reservation, Refusal>;

  Admission(const config::Config& config, Registry& registry, Retention& retention, BatchNews& news,
            const StoredBatches& stored, std::shared_ptr<spdlog::logger> log);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // The jobs and bytes that a command asks for. The caller uses the customer.
  struct Demand {
    Customer& customer;
    std::string_view handler;
    std::uint64_t new_batches;  // 0 for ADD and RETRY
    std::uint64_t batch_jobs;   // of the batch, the new ones included
    std::uint64_t new_jobs;
    const proto::ArgumentList* payloads;  // null: none
    bool is_stored;
    const RangeJobs* range = nullptr;              // whose numbers are the payloads; null: none
    const proto::BatchOptions* options = nullptr;  // of a new batch; null: it is there
    bool awaits_results = false;                   // RUN: its results stay until all its jobs have ended
    BatchRecord* record = nullptr;                 // of ADD and RETRY; null: the batch is new

    Tenant& tenant() const { return *customer.tenant; }
  };
  // For SUBMIT, RUN, OPEN and ADD.
  Admitted reserve(const Demand& demand) LOCKSLEY_REQUIRES(kIoThread);
  // For RETRY: this many jobs of the batch. Registry::go_on() or update() charges them to the batch
  // again; hold the reservation until then, and do not commit it.
  Admitted reserve_retry(BatchRecord& record, std::uint64_t jobs) LOCKSLEY_REQUIRES(kIoThread);

  // From now on everything is refused.
  void drain() LOCKSLEY_REQUIRES(kIoThread) { is_draining_ = true; }
  bool is_draining() const LOCKSLEY_REQUIRES(kIoThread) { return is_draining_; }

 private:
  using Checked = std::expected<void, Refusal>;
  // Whether payloads that exceed the memory of `full` may still wait in memory for the disk.
  Checked check_unsettled(const Demand& demand, const Account& full) const LOCKSLEY_REQUIRES(kIoThread);
  // Refuses a demand that is by itself too large for a limit, whatever else is queued.
  Checked check_sizes(const Demand& demand) const;
  // Refuses a demand for which there is no room now.
  Checked check_room(const Demand& demand) LOCKSLEY_REQUIRES(kIoThread);
  // Whether the data about failed jobs of other batches is below the limit.
  Checked check_failures(const Demand& demand) LOCKSLEY_REQUIRES(kIoThread);
  // The error, if this much more of one resource would be too much even after all possible
  // evictions.
  Checked check(const Demand& demand, Resource resource, std::uint64_t more, std::string_view what)
      LOCKSLEY_REQUIRES(kIoThread);
  const Account* first_without_room(const Demand& demand, Resource resource, std::uint64_t more) const
      LOCKSLEY_REQUIRES(kIoThread);
  std::unexpected<Refusal> queue_full(const Demand& demand, const Account& full, Resource resource)
      LOCKSLEY_REQUIRES(kIoThread);
  void refund(Reservation& reservation) LOCKSLEY_REQUIRES(kIoThread);

  const config::Config& config_;
  Registry& registry_;
  Retention& retention_;
  BatchNews& news_;
  const StoredBatches& stored_;
  const std::shared_ptr<spdlog::logger> log_;
  RateGate full_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::minutes(1)};
  bool is_draining_ LOCKSLEY_GUARDED_BY(kIoThread) = false;
};

}  // namespace locksley::daemon
