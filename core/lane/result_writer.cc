#include "core/lane/result_writer.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

// After an output: its padding, the next head, and a byte of the next output.
constexpr std::size_t kTailBytes = alignof(ResultHead) + 2 * sizeof(ResultHead);

// Between two parts of a publication, so that threads which wait for the batch's mutex get it: a
// thread that takes the mutex again at once is usually faster than a thread that has to wake first.
// A guess: as long as a part takes.
constexpr auto kBetweenParts = std::chrono::microseconds(100);

std::string no_memory(std::size_t size) {
  return "no memory for an output of " + std::to_string(size) + " bytes";
}

class NoMemoryForOutput final : public std::bad_alloc {
 public:
  explicit NoMemoryForOutput(std::size_t size) : why_(std::make_shared<std::string>(no_memory(size))) {}
  const char* what() const noexcept override { return why_->c_str(); }

 private:
  std::shared_ptr<const std::string> why_;  // a copy of the exception must not throw
};

}  // namespace

ResultWriter::ResultWriter(For executor)
    : executor_(executor),
      shared_{.buffer = std::make_unique_for_overwrite<std::byte[]>(kInitialBytes),
              .capacity = kInitialBytes} {}

ResultWriter::~ResultWriter() = default;

void ResultWriter::begin_batch(Batch& batch, Nanoseconds began) {
  const MutexLock lock(mutex_);
  batch_ = &batch;
  began_ = began;
  {
    const MutexLock shown_lock(shown_mutex_);
    shown_ = {&batch, began};
    // [running-index] relaxed: the mutex orders it with the batch.
    index_.store(kNoJob, std::memory_order_relaxed);
  }
  shared_.keep = batch.options().keep;
  const std::uint64_t most = batch.options().max_output_bytes;
  shared_.allowed_output = most == 0 ? kLargestOutput : std::min<std::uint64_t>(most, kLargestOutput);
  most_output_ = shared_.allowed_output;
  shared_.names_jobs = executor_ == For::kExternal || batch.needs_indexes();
  bursts_.clear();
  row_ = cursor_ = 0;
  ended_ = failed_ = published_hint_ = 0;
  published_ended_ = published_failed_ = 0;
  published_row_ = 0;
  // [result-commit] relaxed: the mutex orders it for a publisher.
  committed_.store(0, std::memory_order_relaxed);
}

void ResultWriter::note_burst(std::uint64_t low) {
  const MutexLock lock(mutex_);
  bursts_.push_back({low, ended_});
}

std::vector<IndexRange> ResultWriter::unpublished_indexes(std::uint32_t ended) const {
  std::vector<IndexRange> indexes;
  for (std::size_t i = 0; i < bursts_.size(); ++i) {
    const Burst& burst = bursts_[i];
    const std::uint32_t from = std::max(burst.ended_before, published_ended_);
    const std::uint32_t to = i + 1 < bursts_.size() ? std::min(bursts_[i + 1].ended_before, ended) : ended;
    if (from >= to) continue;
    append_range(indexes, {burst.low + (from - burst.ended_before), burst.low + (to - burst.ended_before)});
  }
  return indexes;
}

ResultWriter::Outcome ResultWriter::end_batch() {
  const MutexLock lock(mutex_);
  const Outcome outcome = publish_own();
  batch_ = nullptr;
  {
    const MutexLock shown_lock(shown_mutex_);
    shown_ = {};
  }
  // One large output must not occupy its memory for ever.
  if (shared_.capacity > 8 * kInitialBytes) {
    shared_.buffer = std::make_unique_for_overwrite<std::byte[]>(kInitialBytes);
    shared_.capacity = kInitialBytes;
  }
  return outcome;
}

std::string ResultWriter::refusal(std::size_t size) const {
  if (size <= own().allowed_output) return no_memory(size);
  return "the output has " + std::to_string(size) + " bytes; a result has at most " +
         std::to_string(own().allowed_output);
}

JobStatus ResultWriter::shorten_output(JobStatus status) {
  if (status == JobStatus::kOk) {
    replace_output(refusal(most_output_ == own().allowed_output ? output_bytes() : refused_bytes_));
    return JobStatus::kError;
  }
  const std::size_t most = std::max(own().allowed_output, kErrorBytes);
  cursor_ = row_ + sizeof(ResultHead) + std::min(output_bytes(), most);
  return status;
}

void ResultWriter::grow_output(std::size_t size) {
  const std::size_t before = output_bytes();
  if (before <= most_output_ && size <= most_output_ - before) {
    if (try_grow(size)) return;
    throw NoMemoryForOutput(before + size);
  }
  // After the first refusal the handler may go on and be refused again: the error names the length
  // of the first one.
  if (most_output_ == own().allowed_output) refused_bytes_ = before + size;
  clear_output();
  next(1);  // commit() has made room for a second head, so that one byte fits
  most_output_ = 0;
  throw std::length_error(refusal(refused_bytes_));
}

void ResultWriter::replace_by_long(std::string_view text) {
  const bool has_room = text.size() <= kLargestOutput && try_grow(text.size());
  // The error text of a failed job keeps its beginning.
  append(has_room ? text : text.substr(0, std::min(kErrorBytes, own().capacity - cursor_)));
  if (has_room) return;
  refused_bytes_ = text.size();
  most_output_ = 0;
}

bool ResultWriter::try_grow(std::size_t size) {
  try {
    grow(size);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

JobStatus ResultWriter::drop_output(JobStatus status) {
  const std::size_t room = own().capacity - row_ - std::min(own().capacity - row_, kTailBytes);
  const std::string why = no_memory(output_bytes());
  if (room < sizeof(ResultHead) + std::max(why.size(), std::size_t{1})) throw std::bad_alloc();
  if (status == JobStatus::kOk) {
    clear_output();
    append(why);
    return JobStatus::kError;
  }
  cursor_ = row_ + sizeof(ResultHead) + std::min({output_bytes(), kErrorBytes, room - sizeof(ResultHead)});
  return status;
}

[[gnu::always_inline]] inline void ResultWriter::commit(JobStatus status, bool has_facts) {
  if (own().keep == Keep::kAll || status != JobStatus::kOk) {
    if (own().keep == Keep::kNone && !has_facts) clear_output();
    // Room for the next head, so that begin_job() need not check.
    if (cursor_ + kTailBytes > own().capacity) [[unlikely]] {
      if (!try_grow(kTailBytes)) status = drop_output(status);
    }
    const auto length = static_cast<std::uint32_t>(output_bytes());
    // [running-index] relaxed: this thread writes it.
    const std::uint64_t index = index_.load(std::memory_order_relaxed);
    ::new (own().buffer.get() + row_) ResultHead{index, length, status, static_cast<std::uint8_t>(has_facts)};
    row_ += ResultHead::bytes_of(length);
  }
  ++ended_;
  if (status != JobStatus::kOk) ++failed_;
  // [result-commit] release: the row is there; pairs with the acquire in publish_locked().
  committed_.store(std::uint64_t{ended_} << 32 | failed_, std::memory_order_release);
}

[[gnu::always_inline]] inline void ResultWriter::end_plain_job(JobStatus status) {
  if (output_bytes() > most_output_) [[unlikely]]
    return end_long_job(status);
  commit(status, false);
}

void ResultWriter::end_long_job(JobStatus status) { commit(shorten_output(status), false); }

void ResultWriter::end_job(JobStatus status) { end_plain_job(status); }

void ResultWriter::end_jobs(JobStatus status, std::uint64_t first,
                            std::span<const std::string_view> outputs) {
  for (const std::string_view output : outputs) {
    begin_job(first++);
    replace_output(output);
    end_plain_job(status);
  }
}

void ResultWriter::end_job(JobStatus status, std::string& facts) {
  if (output_bytes() > most_output_) [[unlikely]]
    status = shorten_output(status);
  if (own().keep == Keep::kNone) clear_output();
  ResultHead::append_facts_length(facts);
  const std::size_t more = facts.size() + kTailBytes;
  if (more > own().capacity - cursor_ && !try_grow(more)) [[unlikely]]
    status = drop_output(status);
  const bool fits = facts.size() <= kLargestOutput - output_bytes() && more <= own().capacity - cursor_;
  if (fits) append(facts);
  commit(status, fits);
}

void ResultWriter::grow(std::size_t size) {
  if (size > kLargestOutput) throw std::length_error("an output of more than 4 GiB");
  // Under the mutex, because a publisher reads the buffer.
  const MutexLock lock(mutex_);
  const std::size_t wanted = std::max(shared_.capacity * 2, cursor_ + size + 4 * sizeof(ResultHead));
  auto larger = std::make_unique_for_overwrite<std::byte[]>(wanted);
  std::memcpy(larger.get(), shared_.buffer.get(), std::min(cursor_, shared_.capacity));
  shared_.buffer = std::move(larger);
  shared_.capacity = wanted;
}

std::optional<ResultWriter::Running> ResultWriter::running() {
  const MutexLock lock(shown_mutex_);
  // [running-index] relaxed: that of this batch, since begin_batch() has reset it under the mutex.
  const std::uint64_t index = index_.load(std::memory_order_relaxed);
  if (shown_.batch == nullptr || index == kNoJob) return std::nullopt;
  return Running{shown_.batch->shared_from_this(), index, shown_.began};
}

ResultWriter::Outcome ResultWriter::publish() {
  const MutexLock lock(mutex_);
  const Outcome outcome = publish_own();
  // Between jobs all rows are committed, hence published now.
  row_ = published_row_ = 0;
  published_hint_ = ended_;
  return outcome;
}

ResultWriter::Outcome ResultWriter::publish_for_worker(const std::function<void(Batch&)>& cancel) {
  std::shared_ptr<Batch> kept;  // until the mutex is released
  const MutexLock lock(mutex_);
  if (batch_ == nullptr) return Outcome::kNothing;
  // The batch lives, and is in its lane: the worker that runs its jobs has not ended with it, and
  // cannot while the mutex is held.
  kept = batch_->shared_from_this();
  Outcome outcome = Outcome::kNothing;
  try {
    outcome = publish_locked();
  } catch (const NoMemoryForRows&) {
    return outcome;  // only the executor's thread may shorten rows
  }
  if (outcome == Outcome::kTooManyFailures) cancel(*kept);
  return outcome;
}

ResultWriter::Outcome ResultWriter::publish_own() {
  for (;;) {
    try {
      return publish_locked();
    } catch (const NoMemoryForRows&) {
      if (!shorten_longest()) throw;
    }
  }
}

bool ResultWriter::shorten_longest() {
  std::size_t longest = 0;
  std::byte* const rows = shared_.buffer.get();
  const auto head_at = [rows](std::size_t row) {
    ResultHead head;
    std::memcpy(&head, rows + row, sizeof head);
    return head;
  };
  for (std::size_t row = published_row_; row < row_; row += ResultHead::bytes_of(head_at(row).length)) {
    longest = std::max<std::size_t>(longest, head_at(row).length);
  }
  if (longest <= kErrorBytes) return false;
  const std::size_t least = std::max(longest / 2, kErrorBytes + 1);
  std::size_t to = published_row_;
  for (std::size_t row = published_row_; row < row_;) {
    ResultHead head = head_at(row);
    const std::size_t size = ResultHead::bytes_of(head.length);
    std::byte* const text = rows + to + sizeof head;
    if (head.length < least) {
      std::memmove(text, rows + row + sizeof head, head.length);
    } else {
      const std::string why = no_memory(head.length);
      if (head.status == JobStatus::kOk) ++failed_;
      head.status = head.status == JobStatus::kOk ? JobStatus::kError : head.status;
      head.length = static_cast<std::uint32_t>(why.size());
      head.has_facts = 0;
      std::memcpy(text, why.data(), why.size());
    }
    std::memcpy(rows + to, &head, sizeof head);
    to += ResultHead::bytes_of(head.length);
    row += size;
  }
  row_ = to;
  // [result-commit] relaxed: the mutex orders it for a publisher.
  committed_.store(std::uint64_t{ended_} << 32 | failed_, std::memory_order_relaxed);
  return true;
}

ResultWriter::Outcome ResultWriter::publish_locked() {
  // [result-commit] acquire: the rows of the jobs that the word counts; pairs with the release in
  // commit().
  const std::uint64_t committed = committed_.load(std::memory_order_acquire);
  const Counts all{static_cast<std::uint32_t>(committed >> 32), static_cast<std::uint32_t>(committed)};
  if (all.ended == published_ended_) return Outcome::kNothing;
  bool too_many = publish_part(next_part(all));
  while (published_ended_ != all.ended) {
    if (executor_ == For::kWorker) std::this_thread::sleep_for(kBetweenParts);
    too_many = publish_part(next_part(all));
  }
  return too_many ? Outcome::kTooManyFailures : Outcome::kPublished;
}

ResultWriter::Counts ResultWriter::next_part(Counts all) const {
  if (all.failed - published_failed_ <= kScatteredAtOnce) [[likely]]
    return all;
  const std::uint32_t rows =
      shared_.keep == Keep::kAll ? all.ended - published_ended_ : all.failed - published_failed_;
  Counts part{published_ended_, published_failed_};
  std::uint64_t next = kNoJob;  // the index after the range that was found last
  std::uint32_t ranges = 0;
  std::size_t at = published_row_;
  for (std::uint32_t i = 0; i < rows; ++i) {
    ResultHead head;
    std::memcpy(&head, shared_.buffer.get() + at, sizeof head);
    at += ResultHead::bytes_of(head.length);
    if (head.status != JobStatus::kOk) {
      if (head.index != next && ++ranges > kScatteredAtOnce) {
        if (shared_.keep == Keep::kAll || !shared_.names_jobs) return part;
        const auto ended = ended_with(next - 1, all.ended);
        return ended ? Counts{*ended, part.failed} : all;
      }
      next = head.index + 1;
      ++part.failed;
    }
    ++part.ended;
  }
  return all;
}

std::optional<std::uint32_t> ResultWriter::ended_with(std::uint64_t index, std::uint32_t ended) const {
  for (std::size_t i = 0; i < bursts_.size(); ++i) {
    const Burst& burst = bursts_[i];
    const std::uint32_t end = i + 1 < bursts_.size() ? bursts_[i + 1].ended_before : ended;
    const std::uint64_t until = index - burst.low + burst.ended_before;
    if (index >= burst.low && until >= published_ended_ && until < end)
      return static_cast<std::uint32_t>(until) + 1;
  }
  return std::nullopt;
}

bool ResultWriter::publish_part(Counts part) {
  const std::uint32_t rows =
      shared_.keep == Keep::kAll ? part.ended - published_ended_ : part.failed - published_failed_;
  EndedJobs counts;
  std::size_t end = published_row_;
  for (std::uint32_t i = 0; i < rows; ++i) {
    ResultHead head;
    std::memcpy(&head, shared_.buffer.get() + end, sizeof head);
    ++counts.by_status[static_cast<std::size_t>(head.status)];
    end += ResultHead::bytes_of(head.length);
  }
  if (shared_.keep != Keep::kAll) {
    counts.by_status[static_cast<std::size_t>(JobStatus::kOk)] =
        (part.ended - published_ended_) - (part.failed - published_failed_);
  }
  const std::span<const std::byte> bytes(shared_.buffer.get() + published_row_, end - published_row_);
  const bool too_many = batch_->publish({.ended = counts,
                                         .rows = {bytes, rows},
                                         .indexes = unpublished_indexes(part.ended),
                                         .ran = {worker_, began_}});
  const auto after = std::ranges::upper_bound(bursts_, part.ended, {}, &Burst::ended_before);
  if (after != bursts_.begin()) bursts_.erase(bursts_.begin(), after - 1);
  published_ended_ = part.ended;
  published_failed_ = part.failed;
  published_row_ = end;
  return too_many;
}

}  // namespace locksley
