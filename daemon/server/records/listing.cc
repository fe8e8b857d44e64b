#include "daemon/server/records/listing.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>

#include "daemon/base/loop/processor_time.h"
#include "daemon/base/time.h"
#include "proto/glob.h"

namespace locksley::daemon {

namespace {

// The bounds of one page: how many batches it looks at, and for how long. The time is processor
// time, so the length of a page does not depend on the load of the machine. kListTime ends a page
// only once it has looked at kListAtLeast batches. kListLongest ends any page: a batch that has
// waited for very many others takes 100 us to read.
constexpr std::size_t kMaxLooked = 10'000;
constexpr auto kListTime = std::chrono::microseconds(300);
constexpr std::size_t kListAtLeast = 250;
constexpr auto kListLongest = std::chrono::microseconds(1000);

// The processor time of a page, looked at now and then: each look is a system call.
class PageTime {
 public:
  // Asked before each batch. Never true before the first batch, because the cursor would not
  // advance.
  bool is_used_up() {
    constexpr std::size_t kBetweenLooks = 8;
    constexpr auto kLong = std::chrono::microseconds(100);
    ++visits_;
    if (visits_ == 1 || (visits_ % kBetweenLooks != 0 && now() - looked_at_ < kLong)) return false;
    looked_at_ = now();
    return is_past(visits_ > kListAtLeast ? kListTime : kListLongest);
  }
  bool is_past(std::chrono::microseconds time) const { return processor_time() - began_ > time; }

 private:
  const decltype(processor_time()) began_ = processor_time();
  Instant looked_at_ = now();
  std::size_t visits_ = 0;
};

}  // namespace

std::expected<ListPage, std::string> list_page(Registry& registry, const ListDemand& demand) {
  PageTime time;
  ListPage page;
  const auto next = registry.list({.cursor = demand.cursor,
                                   .active_only = demand.active_only,
                                   .tenant = demand.tenant,
                                   .most = kMaxLooked,
                                   .is_late = [&time] { return time.is_past(kListTime); }},
                                  [&](BatchRecord& record) {
                                    if (page.batches.size() == demand.count) return false;
                                    if (time.is_used_up()) return false;
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
