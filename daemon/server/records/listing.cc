#include "daemon/server/records/listing.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>

#include "daemon/base/processor_time.h"
#include "proto/glob.h"

namespace locksley::daemon {

namespace {

// The bounds of one page: how many batches it looks at, and for how long: in processor time, so that its length does not
// depend on the load of the machine. A page without a filter has at least
// kListAtLeast batches, if there are as many, before the time counts.
constexpr std::size_t kMaxLooked = 10'000;
constexpr auto kListTime = std::chrono::microseconds(300);
constexpr std::size_t kListAtLeast = 250;

}  // namespace

std::expected<ListPage, std::string> list_page(Registry& registry, const ListDemand& demand) {
  const bool is_filtered = demand.matches_batch || demand.matches_status;
  const auto until = processor_time() + kListTime;
  std::size_t looked = 0;
  ListPage page;
  const auto next = registry.list({.cursor = demand.cursor,
                                   .active_only = demand.active_only,
                                   .tenant = demand.tenant,
                                   .most = kMaxLooked},
                                  [&](BatchRecord& record) {
                                    if (page.batches.size() == demand.count) return false;
                                    const bool may_end = ++looked % 8 == 0 &&
                                                         (is_filtered || page.batches.size() >= kListAtLeast);
                                    if (may_end && processor_time() > until) return false;
                                    if (demand.matches_batch && !demand.matches_batch(record)) return true;
                                    const BatchStatus status = record.status();
                                    if (demand.matches_status && !demand.matches_status(status)) return true;
                                    page.batches.emplace_back(record.shared(), status);
                                    return true;
                                  });
  if (!next) return std::unexpected(fmt::format("STORE a batch cannot be read: {}", next.error()));
  page.next = *next;
  return page;
}

bool matches_id_or_name(const BatchRecord& record, std::string_view glob) {
  return proto::glob_match(glob, record.id()) || proto::glob_match(glob, record.options().name);
}

}  // namespace locksley::daemon
