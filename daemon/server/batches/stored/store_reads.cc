#include "daemon/server/batches/stored/store_reads.h"

#include <stdexcept>
#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {
// The way back to the I/O thread, for a thread that has read something for it.
struct ReadersHome {
  IoMailbox& mailbox;
  Slices& slices;
  Reader& aside;
  Reader::User owner;  // of the batch
};
// Called by the thread that has read, at the end of the read.
template <class Outcome>
void tell_read(const ReadersHome& home, std::shared_ptr<BatchRecord> record, std::shared_ptr<Outcome> outcome,
               std::function<void(const Outcome&)> on_read) {
  // The references move into the post: if the reference to the record is the last one, the I/O
  // thread, to which the record belongs, drops it.
  home.mailbox.post([home, record = std::move(record), outcome = std::move(outcome),
                     on_read = std::move(on_read)]() mutable {
    kIoThread.assert_held();
    outcome->is_done = true;
    if (on_read) on_read(*outcome);
    record->wake_readers(home.slices);
    if constexpr (requires { outcome->memory_bytes(); }) {
      if (outcome.use_count() != 1) return;
      // The client has left, or needed only on_read().
      const std::uint64_t bytes = outcome->memory_bytes();
      free_aside(home.aside, std::move(outcome), bytes, home.owner);
    }
  });
}
}  // namespace

template <class Outcome>
void StoreReads::begin(std::shared_ptr<BatchRecord> record, std::shared_ptr<Outcome> outcome,
                       std::function<void(const BatchRecord&, Outcome&)> read,
                       std::function<void(const Outcome&)> on_read) {
  const Reader::User owner = parts_.registry.tenant_of(*record).number;
  parts_.store->read(
      [home = ReadersHome{IoMailbox::of(parts_.io), parts_.slices, parts_.aside, owner},
       record = std::move(record), outcome = std::move(outcome), read = std::move(read),
       on_read = std::move(on_read)]() mutable {
        read(*record, *outcome);
        tell_read(home, std::move(record), std::move(outcome), std::move(on_read));
      },
      owner);
}

std::shared_ptr<const StoreReads::ReadRows> StoreReads::read_rows(
    std::shared_ptr<BatchRecord> record, const ResultsDemand& demand, Waiting client,
    std::function<void(const ReadRows&)> on_read) {
  auto rows = std::make_shared<ReadRows>();
  const auto read = [demand, client](const BatchRecord& batch, ReadRows& into) {
    if (client.expired()) return;
    try {
      into.page = read_results(batch, demand);
    } catch (const std::runtime_error& error) {
      into.page = std::unexpected(error.what());
    }
  };
  const auto tell = [client = std::move(client), on_read = std::move(on_read)](const ReadRows& done) {
    if (on_read && !client.expired()) on_read(done);
  };
  begin<ReadRows>(std::move(record), rows, read, tell);
  return rows;
}

std::shared_ptr<const StoreReads::FoundRow> StoreReads::find_row(std::shared_ptr<BatchRecord> record,
                                                                 std::uint64_t row) {
  auto found = std::make_shared<FoundRow>();
  const auto read = [store = parts_.store, row](const BatchRecord& batch, FoundRow& into) {
    into.place = store->place_of_result(batch.sequence, row);
  };
  begin<FoundRow>(std::move(record), found, read, {});
  return found;
}

std::shared_ptr<const ReadFailures> StoreReads::read_failures(
    std::shared_ptr<BatchRecord> record, std::function<void(const ReadFailures&)> on_read) {
  auto failures = std::make_shared<ReadFailures>();
  failures->round = record->status().retry_rounds;
  const std::uint64_t sequence = record->sequence;
  const Reader::User owner = parts_.registry.tenant_of(*record).number;
  parts_.store->read_failed_jobs(
      sequence, owner,
      [home = ReadersHome{IoMailbox::of(parts_.io), parts_.slices, parts_.aside, owner},
       record = std::move(record), failures,
       on_read = std::move(on_read)](std::expected<FailedJobList, std::string> failed) mutable {
        failures->failed = std::move(failed);
        tell_read(home, std::move(record), std::move(failures), std::move(on_read));
      });
  return failures;
}

std::shared_ptr<const FoundJob> StoreReads::find_job(const std::shared_ptr<BatchRecord>& record,
                                                     std::uint64_t index, std::uint64_t most_rows,
                                                     Waiting client,
                                                     std::function<void(const FoundJob&)> on_found) {
  const bool is_in_store = record->is_stored() && !record->stored.is_rejected;
  JobDemand demand{.client = std::move(client), .index = index, .most_rows = most_rows};
  BatchPayloads& payloads = record->payloads();
  if (!payloads.in_memory(index)) {
    demand.open_range = payloads.open_range();
    if (!demand.open_range && is_in_store)
      demand.payloads = parts_.store->payloads_for_reader(record->sequence);
  }
  return search(record, demand, std::move(on_found));
}

std::shared_ptr<const FoundJob> StoreReads::find_facts(const std::shared_ptr<BatchRecord>& record,
                                                       std::uint64_t index, Waiting client,
                                                       std::function<void(const FoundJob&)> on_found) {
  return search(record, {.client = std::move(client), .index = index, .wants_output = false},
                std::move(on_found));
}

std::shared_ptr<const FoundJob> StoreReads::search(const std::shared_ptr<BatchRecord>& record,
                                                   const JobDemand& demand,
                                                   std::function<void(const FoundJob&)> on_found) {
  const Reader::User owner = parts_.registry.tenant_of(*record).number;
  const auto post = [parts = &parts_, owner](Reader::Task task, Reader::Place place) {
    parts->store != nullptr ? parts->store->read(std::move(task), owner, place)
                            : parts->aside.post(std::move(task), owner, place);
  };
  const auto tell = [&slices = parts_.slices, held = record,
                     on_found = std::move(on_found)](const FoundJob& found) {
    kIoThread.assert_held();
    if (on_found) on_found(found);
    held->wake_readers(slices);
  };
  return JobSearch::begin(parts_.io, post, record, demand, tell);
}

}  // namespace locksley::daemon
