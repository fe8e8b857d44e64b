#include "core/lane/loss_counts.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace locksley {

LossCounts::LossCounts(std::uint32_t most_losses, std::size_t most_jobs)
    : most_losses_(std::max(most_losses, 1U)), most_jobs_(std::max<std::size_t>(most_jobs, 1)) {}

bool LossCounts::count(Batch& batch, std::uint64_t index) {
  if (most_losses_ == 1) return true;
  if (size_ >= most_jobs_) make_room();
  const auto found = batches_.try_emplace(batch.weak_from_this()).first;
  const auto [job, is_new] = found->second.try_emplace(index, 0);
  if (is_new) ++size_;
  if (++job->second < most_losses_) return false;
  found->second.erase(job);
  --size_;
  erase_if_empty(found);
  return true;
}

std::uint64_t LossCounts::take_back(Batch& batch, IndexRange jobs) {
  const auto found = batches_.find(batch.weak_from_this());
  if (found == batches_.end()) return 0;
  std::uint64_t taken = 0;
  for (auto job = found->second.lower_bound(jobs.low);
       job != found->second.end() && job->first < jobs.high;) {
    ++taken;
    if (--job->second != 0) {
      ++job;
    } else {
      job = found->second.erase(job);
      --size_;
    }
  }
  erase_if_empty(found);
  return taken;
}

void LossCounts::forget(Batch& batch, IndexRange jobs) {
  if (batches_.empty()) return;
  const auto found = batches_.find(batch.weak_from_this());
  if (found == batches_.end()) return;
  const auto low = found->second.lower_bound(jobs.low);
  const auto high = found->second.lower_bound(jobs.high);
  size_ -= static_cast<std::size_t>(std::distance(low, high));
  found->second.erase(low, high);
  erase_if_empty(found);
}

void LossCounts::erase_if_empty(Batches::iterator batch) {
  if (batch->second.empty()) batches_.erase(batch);
}

void LossCounts::make_room() {
  struct OfTenant {
    std::size_t jobs = 0;
    std::vector<Batches::iterator> batches;
  };
  // Tenants of another daemon, whose jobs run here, may have the same names: these batches have a
  // queue_tenant.
  std::map<std::pair<std::string, std::string>, OfTenant> by_name;
  for (auto at = batches_.begin(); at != batches_.end();) {
    const std::shared_ptr<Batch> batch = at->first.lock();
    if (batch == nullptr || batch->is_over()) {
      size_ -= at->second.size();
      at = batches_.erase(at);
      continue;
    }
    OfTenant& tenant = by_name[{batch->options().queue_tenant, batch->options().tenant}];
    tenant.jobs += at->second.size();
    tenant.batches.push_back(at++);
  }
  const std::size_t most_left = most_jobs_ - std::max<std::size_t>(1, most_jobs_ / 8);
  if (size_ <= most_left) return;
  std::vector<OfTenant> tenants;
  tenants.reserve(by_name.size());
  for (auto& each : by_name) tenants.push_back(std::move(each.second));
  std::ranges::sort(tenants, std::greater(), &OfTenant::jobs);
  for (const OfTenant& tenant : tenants) {
    for (const Batches::iterator batch : tenant.batches) batches_.erase(batch);
    size_ -= tenant.jobs;
    if (size_ <= most_left) return;
  }
}

}  // namespace locksley
