// The charges of batches to the accounts of their customers and users.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/loop/io_thread.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/accounts/customers.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

// Keeps what each batch is charged (BatchRecord::charged) and the accounts of its customer and its
// tenant in step. Jobs, batches and payloads that have not ended are the customer's. The rest is
// the user's, since a batch that is over keeps no customer in memory.
//
// A member of the Registry, like the tenants and customers, to which it refers. The I/O thread
// only. O(1), but for the first use of a customer. Nothing blocks. Only allocation fails.
class BatchCharges {
 public:
  BatchCharges(Tenants& tenants, Customers& customers, ServerStats& stats)
      : tenants_(tenants), customers_(customers), stats_(stats) {}
  BatchCharges(const BatchCharges&) = delete;
  BatchCharges& operator=(const BatchCharges&) = delete;

  // The tenant that owns the batch.
  Tenant& tenant_of(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    Tenant*& known = record.charged.tenant;
    if (known == nullptr) {
      known = &tenants_.of(record.options().tenant);
      record.line = line_of_tenant(known->number);
    }
    return *known;
  }

  // ---- Before a batch has the jobs ----

  // The charge to a customer, and to its tenant, for jobs before they are accepted. refund() undoes
  // charge(). assign() moves the charge to the batch, which keeps it until its jobs have ended. The
  // batch uses the customer until it is over. `memory_bytes` is an estimate; the batch is charged
  // what its payloads really hold.
  struct Charge {
    std::uint64_t jobs = 0;
    std::uint64_t batches = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t memory_bytes = 0;
    std::uint64_t record_bytes = 0;
  };
  void charge(Customer& customer, const Charge& charge) LOCKSLEY_REQUIRES(kIoThread);
  void refund(Customer& customer, const Charge& charge) LOCKSLEY_REQUIRES(kIoThread);
  void assign(BatchRecord& record, const Charge& charge) LOCKSLEY_REQUIRES(kIoThread);

  // ---- While it has them ----

  // The batch is active from now on: it uses its customer.
  void begin(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // Adds `jobs` to the jobs that a batch is charged, and sets the bytes of its payloads in memory.
  // The first call for an active batch counts the batch itself.
  void add_jobs_set_memory(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes)
      LOCKSLEY_REQUIRES(kIoThread);
  // Sets the jobs and the memory that the batch is charged.
  void set_jobs_and_memory(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes)
      LOCKSLEY_REQUIRES(kIoThread);
  // Sets the payload bytes, in memory or in the store, that the tenant's quota counts until the
  // batch is over.
  void count_payloads(BatchRecord& record, std::uint64_t bytes) LOCKSLEY_REQUIRES(kIoThread);
  // Sets the bytes that the batch is charged for the record itself.
  void count_record(BatchRecord& record, std::uint64_t bytes) LOCKSLEY_REQUIRES(kIoThread);
  // The batch is over: it is charged for its record only, without the batches that it waited for,
  // and uses its customer no more.
  void end(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

  std::uint64_t queued_jobs() const LOCKSLEY_REQUIRES(kIoThread) {
    return tenants_.account_of_all().used(Resource::kQueuedJobs);
  }
  // About how many bytes the record of a batch takes in memory, without payloads and results.
  // `options`: of the command that makes the batch, or of the batch. `waits`: the most batches for
  // which it waits.
  static std::uint64_t record_bytes(const auto& options, std::size_t waits) {
    return record_bytes_with(
        options.id.size() + options.name.size() + options.customer.size() + options.trace.size(), waits);
  }

 private:
  static std::uint64_t record_bytes_with(std::size_t text_bytes, std::size_t waits);
  // The account of the batch's customer; of a batch that is over, that of its tenant.
  Account& account_of(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  void publish_counts() LOCKSLEY_REQUIRES(kIoThread);

  Tenants& tenants_;
  Customers& customers_;
  ServerStats& stats_;
};

}  // namespace locksley::daemon
