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

#include "daemon/server/batch_record.h"
#include "daemon/server/registry.h"

namespace locksley::daemon {

// Which batches a page has.
struct ListDemand {
  std::uint64_t cursor = 0;  // 0: the newest first; else what the page before it gave
  std::uint64_t count = 0;   // at most
  bool active_only = false;
  const Tenant* tenant = nullptr;  // null: of all
  // Empty: every batch. The second is asked of those that the first lets pass, as it costs a lock.
  std::function<bool(const BatchRecord&)> is_named = {};
  std::function<bool(const BatchStatus&)> is_so = {};
};

struct ListPage {
  std::uint64_t next = 0;  // cursor to go on from; 0: there are no more
  // Held: those that are loaded for it have no other owner.
  std::vector<std::pair<std::shared_ptr<BatchRecord>, BatchStatus>> batches;
};

// Bounded in what it looks at and in its time, so that a page may be short and yet not the last. The error is
// that of the reply.
std::expected<ListPage, std::string> list_page(Registry& registry, const ListDemand& demand);

// What this thread has used. Time in which others have the processor does not count: what is shown does not
// depend on them.
std::chrono::nanoseconds processor_time();

// Whether a glob matches the id or the name.
bool is_named_like(const BatchRecord& record, std::string_view glob);

}  // namespace locksley::daemon
