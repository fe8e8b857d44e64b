// How batches that are over leave: first the memory, then, when their time is up, or room is needed, or
// somebody says so, the store. And how they come back to memory when somebody asks for them.
#include <fmt/format.h>

#include <asio/post.hpp>
#include <stdexcept>
#include <utility>

#include "daemon/server/batches.h"
#include "daemon/server/wakeup.h"
#include "daemon/store/store.h"
#include "proto/text.h"

namespace locksley::daemon {

Batches::Found Batches::find_own(const Tenant& tenant, std::string_view id) {
  auto found = registry_.find(tenant, id);
  if (!found) {
    return std::unexpected(
        fmt::format("STORE the batch cannot be looked up at the moment: {}", found.error()));
  }
  return *found;
}

Batches::Found Batches::find(const User& by, std::string_view id) {
  auto found = find_own(by.tenant(), id);
  if (!found || *found != nullptr || !by.is_admin()) return found;
  // Ids may have a '/', names of users have none.
  if (const std::size_t slash = id.find('/'); slash != std::string_view::npos) {
    if (const Tenant* tenant = registry_.tenants().find(id.substr(0, slash))) {
      found = find_own(*tenant, id.substr(slash + 1));
      if (!found || *found != nullptr) return found;
    }
  }
  return find_any(id);
}

Batches::Found Batches::find_any(std::string_view id) {
  const Tenant* whose = nullptr;
  for (const Tenant& tenant : registry_.tenants().all()) {
    const auto found = find_own(tenant, id);
    if (!found) return found;
    if (*found == nullptr) continue;
    if (whose != nullptr) {
      return std::unexpected(fmt::format("ERR several users have a batch '{}': say whose, as in '{}/{}'",
                                         proto::printable(id), whose->name, proto::printable(id)));
    }
    whose = &tenant;
  }
  if (whose == nullptr) return nullptr;
  // Once more: what was loaded meanwhile may have driven it out.
  return find_own(*whose, id);
}

Registry::Loaded Batches::load(std::uint64_t sequence) {
  auto stored = store_->load(sequence);
  if (!stored) return std::unexpected(std::move(stored.error()));
  const auto record = record_of(*stored);
  record->is_active = false;
  return record;
}

std::shared_ptr<const Batches::ReadRows> Batches::read_rows(std::shared_ptr<BatchRecord> record,
                                                            const ResultsDemand& demand,
                                                            std::function<void(const ReadRows&)> told) {
  auto read = std::make_shared<ReadRows>();
  store_->read([&io = io_, record = std::move(record), read, demand, told = std::move(told)]() mutable {
    try {
      read->page = read_results(*record, demand);
    } catch (const std::runtime_error& error) {
      read->page = std::unexpected(error.what());
    }
    // What is shared goes along, so that it ends on the I/O thread, where it belongs.
    asio::post(io, [record = std::move(record), read = std::move(read), told = std::move(told)] {
      read->is_done = true;
      if (told) told(*read);
      for (const BatchRecord::Waiter& waiter : record->waiters) {
        if (waiter.row == BatchRecord::kReadRows) waiter.who->wakeup.wake();
      }
    });
  });
  return read;
}

void Batches::retire_finished() {
  while (finished_.size() > kMostFinished) {
    if (BatchRecord* record = registry_.by_sequence(finished_.front())) {
      if (record->is_active) {
        // RETRY let it go on. It comes here again.
        finished_.pop_front();
        continue;
      }
      // It must be whole in the store, and nothing that is told of it may be outstanding. If the disk fails,
      // it waits.
      if (record->is_rejected || !is_settled(record->ticket) || !store_->is_written(record->end_ticket)) {
        return;
      }
      retained_.erase(record->sequence);
      registry_.retire(*record);
    }
    finished_.pop_front();
  }
}

bool Batches::make_room(std::uint64_t bytes) {
  const std::uint64_t most = config_.store.max_bytes.count;
  if (most == 0) return true;
  while (stored_bytes_ + bytes > most) {
    const RetainedBatch* retired = registry_.retained().first();
    if (retired != nullptr && (retained_.empty() || retired->sequence < *retained_.begin())) {
      forget_retained(retired->sequence, Urgency::kWithNext);
    } else if (!retained_.empty()) {
      forget(*registry_.by_sequence(*retained_.begin()), Urgency::kWithNext);
    } else {
      return false;
    }
  }
  return true;
}

std::optional<Ticket> Batches::forget(BatchRecord& record, Urgency urgency) {
  const bool is_stored = record.is_stored();
  const std::uint64_t sequence = record.sequence;
  if (is_stored && registry_.by_sequence(sequence) != &record) return forget_retained(sequence, urgency);
  const std::uint64_t bytes = record.stored_bytes;
  const BatchStatus status = record.status();
  const ForgetBatch forgotten{record.sequence, record.stored_parts, status.steps == 1};
  auto held = record.shared_from_this();
  if (!registry_.forget(record)) return std::nullopt;
  if (status.result_bytes + record.payloads().memory_bytes() > kLargeBytes) {
    aside_.post([held = std::move(held)] {});
  }
  if (is_stored) {
    retained_.erase(sequence);
    stored_bytes_ -= bytes;
    tell_stored_bytes();
  }
  return is_stored ? store_->put(forgotten, urgency) : 0;
}

std::optional<Ticket> Batches::forget_retained(std::uint64_t sequence, Urgency urgency) {
  const auto forgotten = registry_.forget_retained(sequence);
  if (!forgotten) return std::nullopt;
  stored_bytes_ -= forgotten->stored_bytes;
  tell_stored_bytes();
  return store_->put(ForgetBatch{sequence, forgotten->parts, forgotten->has_one_step}, urgency);
}

}  // namespace locksley::daemon
