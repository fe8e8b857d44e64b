#include "daemon/cli/top/model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

namespace locksley::cli {

using std::chrono::milliseconds;

namespace {

// In seconds. A longer time left is no information.
constexpr double kLongestLeft = 365.0 * 86400;

double per_second(std::uint64_t now, std::uint64_t before, double seconds) {
  return now < before ? 0 : static_cast<double>(now - before) / seconds;
}

std::optional<milliseconds> time_left(const TopBatch& batch) {
  const client::BatchStatus& status = batch.status;
  if (status.is_over()) return {};
  if (status.state == "running" && batch.jobs_per_second > 0 && status.jobs >= status.ended()) {
    const double seconds = static_cast<double>(status.jobs - status.ended()) / batch.jobs_per_second;
    if (seconds < kLongestLeft) return milliseconds(std::llround(seconds * 1000));
    return {};
  }
  if (!batch.explanation || batch.explanation->eta_ms < 0) return {};
  return milliseconds(batch.explanation->eta_ms);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool matches(const TopBatch& batch, const std::string& filter) {
  const client::BatchStatus& status = batch.status;
  const std::string texts[] = {status.name,   status.id,    status.handler,
                               status.tenant, status.state, state_of(batch)};
  return filter.empty() || std::ranges::any_of(texts, [&](const std::string& text) {
           return lower(text).find(filter) != std::string::npos;
         });
}

}  // namespace

void TopModel::forget_rates() {
  last_.reset();
  meters_.clear();
}

void TopModel::take(TopSnapshot snapshot) {
  // Another process of the daemon counts from 0.
  if (last_ && last_->server.process_id != snapshot.server.process_id) forget_rates();
  const double seconds = last_ ? std::chrono::duration<double>(snapshot.at - last_->at).count() : 0;
  figures_.has_rates = seconds > 0;
  figures_.jobs_per_second.reset();
  if (figures_.has_rates && snapshot.server.ended_jobs && last_->server.ended_jobs) {
    figures_.jobs_per_second = per_second(*snapshot.server.ended_jobs, *last_->server.ended_jobs, seconds);
  }
  take_workers(snapshot, seconds);
  take_batches(snapshot);
  figures_.server = snapshot.server;
  figures_.lanes = snapshot.lanes;
  std::ranges::stable_sort(figures_.lanes, [](const TopLane& a, const TopLane& b) {
    return std::tuple(a.batches, a.queued, a.running) > std::tuple(b.batches, b.queued, b.running);
  });
  // Sorts by numbers that seldom change, so that rows keep their places.
  figures_.machines = snapshot.machines;
  std::ranges::stable_sort(figures_.machines, [](const auto& a, const auto& b) {
    return std::tuple(a.lost, a.slots) > std::tuple(b.lost, b.slots);
  });
  figures_.tenants = snapshot.tenants;
  std::ranges::stable_sort(figures_.tenants, [](const auto& a, const auto& b) {
    return std::tuple(a.running, a.queued, a.received) > std::tuple(b.running, b.queued, b.received);
  });
  figures_.has_all_active = snapshot.has_all_active;
  figures_.detail = snapshot.detail;
  figures_.refusal = snapshot.refusal;
  last_ = std::move(snapshot);
}

void TopModel::take_workers(const TopSnapshot& snapshot, double seconds) {
  figures_.workers.clear();
  figures_.busy = 0;
  figures_.steals_per_second = 0;
  for (const client::WorkerInfo& now : snapshot.workers) {
    TopWorker worker{.worker = now.worker, .queue_depth = now.queue_depth};
    if (seconds > 0 && figures_.workers.size() < last_->workers.size()) {
      const client::WorkerInfo& before = last_->workers[figures_.workers.size()];
      // A turn that ends while the daemon makes its snapshot may count twice, or not at all, in one
      // of the two snapshots.
      worker.busy = std::min(
          per_second(now.busy_us + now.turn_us, before.busy_us + before.turn_us, seconds) / 1e6, 1.0);
      worker.steals_per_second = per_second(now.steals, before.steals, seconds);
    }
    figures_.busy += worker.busy / static_cast<double>(snapshot.workers.size());
    figures_.steals_per_second += worker.steals_per_second;
    figures_.workers.push_back(worker);
  }
}

void TopModel::take_batches(TopSnapshot& snapshot) {
  figures_.batches.clear();
  std::set<std::string> keys;
  for (client::BatchStatus& status : snapshot.batches) {
    keys.insert(key_of(status));
    figures_.batches.push_back(to_batch(std::move(status), snapshot));
  }
  snapshot.batches.clear();
  std::erase_if(meters_, [&](const auto& meter) { return !keys.contains(meter.first); });
  std::ranges::stable_sort(figures_.batches, [](const TopBatch& a, const TopBatch& b) {
    if (a.status.is_over() != b.status.is_over()) return b.status.is_over();
    return a.status.submitted_at > b.status.submitted_at;
  });
}

TopBatch TopModel::to_batch(client::BatchStatus status, const TopSnapshot& snapshot) {
  TopBatch batch;
  batch.name.key = key_of(status);
  batch.name.wire = snapshot.server.may("admin") ? batch.name.key : status.id;
  // A batch that is not on the screen has no explanation: an earlier one would be out of date.
  if (const auto found = snapshot.explanations.find(batch.name.key); found != snapshot.explanations.end())
    batch.explanation = found->second;
  const auto [meter, is_new] = meters_.try_emplace(batch.name.key, snapshot.at, status.ended());
  if (!is_new) meter->second.update(status.ended(), snapshot.at);
  if (!status.is_over()) batch.jobs_per_second = meter->second.per_second();
  batch.progress =
      status.jobs == 0
          ? (status.is_over() ? 1.0 : 0.0)
          : std::min(static_cast<double>(status.ended()) / static_cast<double>(status.jobs), 1.0);
  batch.status = std::move(status);
  batch.left = time_left(batch);
  return batch;
}

std::string_view to_string(TopOrder order) { return kTopOrderNames[static_cast<std::size_t>(order)]; }

std::vector<const TopBatch*> chosen_batches(const TopFigures& figures, TopOrder order,
                                            std::string_view filter) {
  std::vector<const TopBatch*> chosen;
  const std::string wanted = lower(filter);
  for (const TopBatch& batch : figures.batches) {
    if (matches(batch, wanted)) chosen.push_back(&batch);
  }
  const auto sort_by = [&](auto value) {
    std::ranges::stable_sort(chosen, [&](const TopBatch* a, const TopBatch* b) {
      if (a->status.is_over() != b->status.is_over()) return b->status.is_over();
      return value(*a) < value(*b);
    });
  };
  switch (order) {
    case TopOrder::kNewest:
      break;  // the figures have this order
    case TopOrder::kProgress:
      sort_by([](const TopBatch& batch) { return -batch.progress; });
      break;
    case TopOrder::kRate:
      sort_by([](const TopBatch& batch) { return -batch.jobs_per_second; });
      break;
    case TopOrder::kLeft:
      sort_by([](const TopBatch& batch) { return batch.left.value_or(milliseconds::max()); });
      break;
    case TopOrder::kJobs:
      sort_by([](const TopBatch& batch) { return UINT64_MAX - batch.status.jobs; });
      break;
    case TopOrder::kFailed:
      sort_by([](const TopBatch& batch) { return UINT64_MAX - batch.status.failed; });
      break;
    case TopOrder::kName:
      sort_by([](const TopBatch& batch) -> const std::string& { return batch.title(); });
      break;
    case TopOrder::kTenant:
      sort_by([](const TopBatch& batch) -> const std::string& { return batch.status.tenant; });
      break;
  }
  return chosen;
}

std::string state_of(const TopBatch& batch) {
  const client::BatchStatus& status = batch.status;
  if (status.is_over()) return status.state;
  if (!batch.explanation || batch.explanation->reason == "ended") return status.state;
  if (batch.is_paused()) return "paused";
  return batch.explanation->reason;
}

}  // namespace locksley::cli
