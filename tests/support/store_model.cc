#include "tests/support/store_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "core/base/index_ranges.h"
#include "tests/support/failed_jobs.h"

namespace locksley::testing {
namespace {

using daemon::StoredBatch;
constexpr std::string_view kGone = "gone";

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// A text that may be long or hold anything.
std::string brief(std::string_view text) {
  const bool is_plain =
      text.size() <= 24 && std::ranges::all_of(text, [](char byte) { return byte >= ' ' && byte <= '~'; });
  if (is_plain) return fmt::format("'{}'", text);
  return fmt::format("{}#{:x}", text.size(), std::hash<std::string_view>()(text));
}

std::string describe(std::vector<StoredRow> rows) {
  std::string text;
  for (const StoredRow& row : rows) {
    text += fmt::format("{}:{}:{} ", row.index, to_string(row.status), brief(row.output));
  }
  return text;
}

std::string describe(const StoredBatch& batch, const std::string& rows, const std::string& payloads) {
  const BatchHistory& history = batch.history;
  std::string left;
  std::string job_attempts;
  std::map<std::uint64_t, AttemptCounts> attempts;
  for (const JobAttempts& jobs : history.job_attempts) {
    for (std::uint64_t job = jobs.jobs.low; job < jobs.jobs.high; ++job) attempts[job] = jobs.attempts;
  }
  for (const IndexRange& range : batch.left) {
    left += fmt::format("[{},{}) ", range.low, range.high);
    // Attempts of the other jobs are not compared.
    for (std::uint64_t job = range.low; job < range.high; ++job) {
      if (const AttemptCounts& of = attempts[job]; of.failed != 0) {
        job_attempts += fmt::format("{}:{}-{} ", job, of.failed, of.forgiven);
      }
    }
  }
  std::string failed;
  for (const IndexRange& range : sorted(history.failed))
    failed += fmt::format("[{},{}) ", range.low, range.high);
  return fmt::format(
      "accepted {} jobs {} closed {} cancelled {} paused {} reason {} weight {} attempt {} totals {} "
      "row_count {} "
      "result_bytes {} steps {} submitted {} started {} finished {} payload_bytes {} changes {} retried {} "
      "superseded {} rounds {}\n  failed {}\n  job_attempts {}\n  left {}\n  rows {}\n  payloads {}",
      brief(daemon::encode(batch.accepted)), history.jobs, history.closed, history.cancelled, history.paused,
      brief(history.stop_reason), history.weight, history.attempt, fmt::join(history.totals.by_status, "/"),
      history.rows, history.result_bytes, history.steps, history.submitted_at, history.started_at,
      history.finished_at, batch.payload_bytes, brief(daemon::encode(batch.changes)), history.retried,
      history.superseded, history.retry_rounds, failed, job_attempts, left, rows, payloads);
}

bool has_payloads(const daemon::AcceptedRow& row) { return !row.range.has_value(); }

std::vector<StoredRow> rows_of(const ResultLog::Rows& appended) {
  std::vector<StoredRow> rows;
  if (appended.rows == 0) return rows;
  const ResultLog::Chunk& chunk = *appended.chunk;
  if (chunk.bytes == nullptr) {
    for (const IndexRange& run : chunk.runs) {
      for (std::uint64_t i = run.low; i < run.high; ++i)
        rows.push_back({i, chunk.run_status, chunk.run_reason});
    }
    return rows;
  }
  const std::byte* at = chunk.bytes.get() + appended.offset;
  for (std::uint64_t i = 0; i < appended.rows; ++i) {
    ResultHead head;
    std::memcpy(&head, at, sizeof head);
    rows.push_back({head.index, head.status, {reinterpret_cast<const char*>(at + sizeof head), head.length}});
    at += ResultHead::bytes_of(head.length);
  }
  return rows;
}

std::vector<std::string> copy_of(const proto::ArgumentList& list) {
  std::vector<std::string> copies;
  for (const std::string_view each : list) copies.emplace_back(each);
  return copies;
}

// What a store that holds this batch should report of it.
StoredBatch as_stored(std::uint64_t sequence, const StoreModel::Batch& batch) {
  StoredBatch stored;
  stored.sequence = sequence;
  stored.accepted = batch.accepted;
  stored.payload_bytes = batch.accepted.payload_bytes;
  BatchHistory& history = stored.history;
  history.jobs = batch.jobs();
  history.closed = batch.is_closed();
  history.weight = batch.accepted.options.weight;
  history.submitted_at = batch.accepted.submitted_at;
  if (batch.changes) {
    stored.changes = *batch.changes;
    history.weight = batch.changes->weight;
    history.paused = batch.changes->is_paused;
    history.cancelled = batch.changes->is_cancelled;
    history.stop_reason = batch.changes->stop_reason;
    history.attempt = batch.changes->attempt;
    if (batch.accepted.is_streamed) stored.payload_bytes = batch.changes->payload_bytes;
  }
  if (batch.steps != 0) {
    history.totals = batch.last.totals;
    history.rows = batch.last.row_count;
    history.result_bytes = batch.last.result_bytes;
    history.started_at = batch.last.started_at;
    history.finished_at = batch.last.finished_at;
    history.retried = batch.last.retried;
    history.superseded = batch.last.superseded;
    history.retry_rounds = batch.last.retry_rounds;
    if (batch.last.cancelled) {
      history.cancelled = true;
      history.stop_reason = batch.last.stop_reason;
    }
  }
  history.closed = history.closed || history.cancelled;
  for (const std::uint64_t job : batch.failed) append_range(history.failed, {job, job + 1});
  for (const auto& [job, attempts] : batch.job_attempts)
    history.job_attempts.push_back({{job, job + 1}, attempts});
  if (batch.is_over()) {
    history.closed = true;
    if (history.totals.failed() == 0 && !batch.has_payloads_inside) stored.payload_bytes = 0;
    return stored;
  }
  history.steps = batch.steps;
  for (std::uint64_t job = 0; job < history.jobs; ++job) {
    if (batch.ended.contains(job)) continue;
    if (!stored.left.empty() && stored.left.back().high == job) {
      ++stored.left.back().high;
    } else {
      stored.left.push_back({job, job + 1});
    }
  }
  return stored;
}

std::string describe_payloads(std::span<const std::string_view> payloads) {
  std::string text;
  for (const std::string_view payload : payloads) text += brief(payload) + " ";
  return text;
}

}  // namespace

::testing::AssertionResult is_same(const Picture& found, const Picture& expected) {
  constexpr std::size_t kShown = 300;
  std::string text;
  for (const auto& [sequence, batch] : expected) {
    const auto at = found.find(sequence);
    if (at == found.end()) {
      text += fmt::format("batch {} is not there: {}\n", sequence, batch.substr(0, kShown));
    } else if (at->second != batch) {
      // From the word on that differs.
      const auto differs = std::ranges::mismatch(at->second, batch).in2;
      const auto end = static_cast<std::size_t>(differs - batch.begin());
      const std::size_t line = end == 0 ? 0 : batch.rfind("\n", end - 1) + 1;
      const std::size_t begin = std::max(line, end < kShown ? 0 : end - kShown);
      text += fmt::format("batch {} is\n  ...{}...\nand should be\n  ...{}...\n", sequence,
                          at->second.substr(begin, 2 * kShown), batch.substr(begin, 2 * kShown));
    }
  }
  for (const auto& [sequence, batch] : found) {
    if (expected.contains(sequence)) continue;
    text += fmt::format("batch {} should not be there: {}\n", sequence, batch.substr(0, kShown));
  }
  if (text.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << text;
}

std::uint64_t StoreModel::Batch::jobs() const {
  if (is_over()) return last.totals.total();
  return accepted.is_streamed && changes ? changes->jobs : accepted.jobs;
}

bool StoreModel::Batch::is_closed() const {
  return !accepted.is_streamed || is_over() || (changes && changes->is_closed);
}

void StoreModel::apply(const daemon::StoreWrite& write) {
  const auto drop_if_not_needed = [](Batch& batch) {
    if (batch.is_over() && batch.last.totals.failed() == 0) batch.payloads.clear();
  };
  std::visit(Overloaded{[](std::monostate) {},
                        [&](const daemon::AcceptBatch& accept) {
                          Batch& batch = batches[accept.sequence];
                          batch.accepted = accept.row;
                          if (accept.payloads != nullptr) {
                            batch.payloads = copy_of(*accept.payloads);
                            batch.has_payloads_inside =
                                daemon::parts_of(*accept.payloads) == daemon::PayloadParts::kInRow;
                          }
                        },
                        [](const daemon::MovePattern&) {},  // says nothing new
                        [&](const daemon::AddJobs& add) {
                          Batch& batch = batches[add.sequence];
                          batch.payloads.resize(add.first);
                          for (std::string& each : copy_of(*add.payloads)) {
                            batch.payloads.push_back(std::move(each));
                          }
                          batch.changes = add.changes;
                        },
                        [&](const daemon::ChangeBatch& change) {
                          Batch& batch = batches[change.sequence];
                          batch.changes = change.changes;
                          if (change.trims_payloads && batch.payloads.size() > change.changes.jobs) {
                            batch.payloads.resize(change.changes.jobs);
                          }
                        },
                        [&](const daemon::RecordStep& record) {
                          Batch& batch = batches[record.sequence];
                          if (record.step.is_base) batch.steps = 0;
                          ++batch.steps;
                          batch.last = record.step;
                          batch.last.rows = {};
                          for (const IndexRange& range : record.step.ended) {
                            for (std::uint64_t job = range.low; job < range.high; ++job)
                              batch.ended.insert(job);
                          }
                          for (const IndexRange& range : record.step.failed) {
                            for (std::uint64_t job = range.low; job < range.high; ++job)
                              batch.failed.insert(job);
                          }
                          for (const IndexRange& range : record.step.requeued) {
                            for (std::uint64_t job = range.low; job < range.high; ++job) {
                              batch.ended.erase(job);
                              batch.failed.erase(job);
                            }
                          }
                          for (const JobAttempts& jobs : record.step.job_attempts) {
                            for (std::uint64_t job = jobs.jobs.low; job < jobs.jobs.high; ++job)
                              batch.job_attempts[job] = jobs.attempts;
                          }
                          for (StoredRow& row : rows_of(record.step.rows))
                            batch.rows.push_back(std::move(row));
                          drop_if_not_needed(batch);
                        },
                        [&](const daemon::ForgetBatch& forget) { batches.erase(forget.sequence); },
                        [](const daemon::SetCustomer&) {}, [](const daemon::TakeNumbers&) {}},  // of no batch
             write);
}

Picture StoreModel::picture() const {
  Picture picture;
  for (const auto& [sequence, batch] : batches) {
    const StoredBatch stored = as_stored(sequence, batch);
    std::string payloads(kGone);
    const bool has_them = has_payloads(batch.accepted) && stored.history.jobs != 0 &&
                          !(batch.is_over() && stored.history.totals.failed() == 0);
    if (has_them) {
      payloads =
          describe_payloads(std::vector<std::string_view>(batch.payloads.begin(), batch.payloads.end()));
    }
    picture[sequence] = describe(stored, describe(batch.rows), payloads);
  }
  return picture;
}

std::expected<Picture, std::string> picture_of(daemon::Store& store) {
  std::vector<StoredBatch> batches;
  const auto recovered = store.recover([&](StoredBatch batch) { batches.push_back(std::move(batch)); });
  if (!recovered) return std::unexpected(recovered.error().what);
  Picture picture;
  for (StoredBatch& batch : batches) {
    read_left_out(store, batch);
    std::string rows;
    try {
      std::vector<StoredRow> read;
      store.journal(batch.sequence)->read_rows(0, batch.history.rows, [&](const ResultRow& row) {
        read.push_back({row.index, row.status, std::string(row.output)});
        return true;
      });
      rows = describe(std::move(read));
    } catch (const std::runtime_error& error) {
      rows = fmt::format("unreadable: {}", error.what());
    }
    const bool has_no_use_for_them = batch.history.finished_at != 0 && batch.history.totals.failed() == 0;
    std::string payloads(kGone);
    // Those inside its first row stay there.
    const bool stay = has_no_use_for_them && batch.parts == daemon::PayloadParts::kInRow;
    if (has_payloads(batch.accepted) && batch.history.jobs != 0 && !stay) {
      const std::unique_ptr<PayloadSource> source = store.payloads(batch.sequence);
      std::vector<std::string_view> views(batch.history.jobs);
      std::string scratch;
      try {
        // Large payloads come a few at a time, and their views last until the next call.
        std::deque<std::string> copies;
        for (std::size_t done = 0; done < views.size();) {
          const std::size_t count = source->fetch(done, std::span(views).subspan(done), scratch);
          for (const std::size_t end = done + count; done < end; ++done) {
            views[done] = copies.emplace_back(views[done]);
          }
        }
        payloads = describe_payloads(views);
      } catch (const std::runtime_error& error) {
        if (!has_no_use_for_them) payloads = fmt::format("unreadable: {}", error.what());
      }
    }
    std::string& text = picture[batch.sequence] = describe(batch, rows, payloads);
    if (batch.history.finished_at == 0) continue;
    // A batch that is over can also be loaded by itself.
    auto loaded = store.load(batch.sequence);
    if (loaded) read_left_out(store, *loaded);
    if (!loaded) {
      text += "\nby itself unreadable: " + loaded.error();
    } else if (describe(*loaded, rows, payloads) != text) {
      text += "\nby itself: " + describe(*loaded, rows, payloads);
    }
  }
  return picture;
}

ResultLog::Rows append_rows(ResultLog& log, const std::vector<StoredRow>& rows) {
  std::vector<std::byte> bytes;
  for (const StoredRow& row : rows) {
    const ResultHead head{row.index, static_cast<std::uint32_t>(row.output.size()), row.status, {}};
    const std::size_t at = bytes.size();
    bytes.resize(at + ResultHead::bytes_of(row.output.size()));
    std::memcpy(bytes.data() + at, &head, sizeof head);
    std::memcpy(bytes.data() + at + sizeof head, row.output.data(), row.output.size());
  }
  const bool has_others =
      std::ranges::any_of(rows, [](const StoredRow& row) { return row.status != JobStatus::kOk; });
  return log.append(ResultLog::prepare(
      {bytes, rows.size()}, has_others ? ResultLog::OtherRows::kPossible : ResultLog::OtherRows::kNone));
}

std::shared_ptr<const proto::ArgumentList> payloads_of(const std::vector<std::string>& payloads) {
  const std::vector<std::string_view> views(payloads.begin(), payloads.end());
  return std::make_shared<const proto::ArgumentList>(proto::ArgumentList::copy_of(views));
}

}  // namespace locksley::testing
