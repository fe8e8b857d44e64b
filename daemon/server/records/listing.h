// Pages of batches, newest first.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// The request for a page: which batches it has.
struct ListDemand {
  std::uint64_t cursor = 0;  // 0: begins with the newest batch; else ListPage::next of the page before
  std::uint64_t count = 0;   // at most so many batches
  bool active_only = false;
  const Tenant* tenant = nullptr;  // null: of all tenants
  // Filters; empty: every batch passes. `matches_status` needs the status, which costs a lock, so
  // it is called only for batches that pass `matches_batch`.
  std::function<bool(const BatchRecord&)> matches_batch = {};
  std::function<bool(const BatchStatus&)> matches_status = {};
};

// A page of batches, newest first.
struct ListPage {
  std::uint64_t next = 0;  // the cursor of the next page; 0: this is the last
  // The page owns its records, because a record that was loaded for it may have no other owner.
  std::vector<std::pair<std::shared_ptr<BatchRecord>, BatchStatus>> batches;
};

// One call visits a bounded number of batches, for a bounded time. So a page may have fewer than
// `count` batches, or none, although it is not the last. The error is the text of the error reply.
std::expected<ListPage, std::string> list_page(Registry& registry, const ListDemand& demand)
    LOCKSLEY_REQUIRES(kIoThread);

// Whether the glob matches the batch's id or its name.
bool matches_id_or_name(const BatchRecord& record, std::string_view glob);

}  // namespace locksley::daemon
