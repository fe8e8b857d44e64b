#include "daemon/store/postgres/index_rewrite.h"

#include <algorithm>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kShareOfLive = 16;
constexpr std::uint64_t kMostLive = std::uint64_t{8} << 20;
constexpr auto kPause = std::chrono::seconds(10);
constexpr auto kPauseIfLarge = std::chrono::minutes(5);

}  // namespace

bool IndexRewrite::is_wasteful(std::uint64_t live) const {
  return sizes_.index() > 2 * live + std::max(sizes_.least(), sizes_.live() / kShareOfLive);
}

PgExpected<Freed> IndexRewrite::run(PgConnection& connection) {
  if (now() < next_look_ || !is_wasteful(live_)) return Freed::kHasRows;
  next_look_ = now() + kPause;
  const auto bytes = bytes_of_index(connection, now() + reply_);
  if (!bytes) return std::unexpected(bytes.error());
  if (!*bytes || (*bytes)->live > kMostLive) {
    next_look_ = now() + kPauseIfLarge;
    return Freed::kHasRows;
  }
  live_ = (*bytes)->live;
  sizes_.set_index((*bytes)->size);
  if (!is_wasteful(live_) || !generations_.lock_between_groups()) return Freed::kHasRows;
  const auto rewritten = rewrite_index(connection, node_, now() + reply_);
  if (!rewritten) generations_.are_unknown = true;  // it may still be under way
  generations_.mutex.unlock();
  if (rewritten && *rewritten == Freed::kDone) sizes_.set_index(live_);
  return rewritten;
}

}  // namespace locksley::daemon
