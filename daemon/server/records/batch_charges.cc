#include "daemon/server/records/batch_charges.h"

#include <utility>

namespace locksley::daemon {

namespace {

// Calls change(account, resource, amount) for each part of the charge.
template <class Change>
void for_each_part(Customer& customer, const BatchCharges::Charge& charge, Change change) {
  Account& of_customer = *customer.account;
  change(of_customer, Resource::kQueuedJobs, charge.jobs);
  change(of_customer, Resource::kBatches, charge.batches);
  change(of_customer, Resource::kPayloadBytes, charge.payload_bytes);
  Account& of_user = customer.tenant->account;
  change(of_user, Resource::kQueuedBytes, charge.memory_bytes);
  change(of_user, Resource::kRecordBytes, charge.record_bytes);
}

}  // namespace

std::uint64_t BatchCharges::record_bytes_with(std::size_t text_bytes, std::size_t waits) {
  // The record; its nodes in the registry's maps and in the ring; the small parts of its payloads
  // and journal.
  constexpr std::uint64_t kOthers = 768;  // measured: 2,000 to 2,300 bytes in all for a batch of one job
  // A wait in the record, one in Dependencies, and its part in the store's row.
  constexpr std::uint64_t kWaitBytes = 256;
  return sizeof(BatchRecord) + kOthers + text_bytes + waits * kWaitBytes;
}

void BatchCharges::charge(Customer& customer, const Charge& charge) {
  for_each_part(customer, charge, [](Account& account, Resource resource, std::uint64_t amount) {
    account.charge(resource, amount);
  });
}

void BatchCharges::refund(Customer& customer, const Charge& charge) {
  for_each_part(customer, charge, [](Account& account, Resource resource, std::uint64_t amount) {
    account.refund(resource, amount);
  });
}

Account& BatchCharges::account_of(BatchRecord& record) {
  Customer* const customer = record.charged.customer;
  return customer == nullptr ? tenant_of(record).account : *customer->account;
}

void BatchCharges::begin(BatchRecord& record) {
  record.charged.customer = &customers_.use(tenant_of(record), record.options().customer);
}

void BatchCharges::publish_counts() {
  const Account& all = tenants_.account_of_all();
  stats_.queued_jobs.set(all.used(Resource::kQueuedJobs));
  stats_.queued_bytes.set(all.used(Resource::kQueuedBytes));
}

void BatchCharges::assign(BatchRecord& record, const Charge& charge) {
  BatchRecord::Charged& charged = record.charged;
  Account& account = tenant_of(record).account;
  charged.is_counted = true;
  charged.jobs += charge.jobs;
  charged.payload_bytes += charge.payload_bytes;
  charged.record_bytes += charge.record_bytes;
  const std::uint64_t memory = record.payloads().memory_bytes();
  account.charge(Resource::kQueuedBytes, memory);
  account.refund(Resource::kQueuedBytes, std::exchange(charged.memory_bytes, memory) + charge.memory_bytes);
  publish_counts();
}

void BatchCharges::add_jobs_set_memory(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  if (record.is_active && !std::exchange(record.charged.is_counted, true)) {
    account_of(record).charge(Resource::kBatches, 1);
  }
  set_jobs_and_memory(record, record.charged.jobs + jobs, bytes);
}

void BatchCharges::count_payloads(BatchRecord& record, std::uint64_t bytes) {
  Account& account = account_of(record);
  account.charge(Resource::kPayloadBytes, bytes);
  account.refund(Resource::kPayloadBytes, std::exchange(record.charged.payload_bytes, bytes));
}

void BatchCharges::count_record(BatchRecord& record, std::uint64_t bytes) {
  Account& account = tenant_of(record).account;
  account.charge(Resource::kRecordBytes, bytes);
  account.refund(Resource::kRecordBytes, std::exchange(record.charged.record_bytes, bytes));
}

void BatchCharges::set_jobs_and_memory(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  Account& jobs_account = account_of(record);
  jobs_account.charge(Resource::kQueuedJobs, jobs);
  jobs_account.refund(Resource::kQueuedJobs, std::exchange(record.charged.jobs, jobs));
  Account& account = tenant_of(record).account;
  account.charge(Resource::kQueuedBytes, bytes);
  account.refund(Resource::kQueuedBytes, std::exchange(record.charged.memory_bytes, bytes));
  publish_counts();
}

void BatchCharges::end(BatchRecord& record) {
  set_jobs_and_memory(record, 0, 0);
  count_payloads(record, 0);
  if (!record.waits.all.empty()) count_record(record, record_bytes(record.options(), 0));
  if (std::exchange(record.charged.is_counted, false)) {
    account_of(record).refund(Resource::kBatches, 1);
  }
  if (Customer* const customer = std::exchange(record.charged.customer, nullptr); customer != nullptr)
    customers_.drop(*customer);
}

}  // namespace locksley::daemon
