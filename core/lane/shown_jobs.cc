#include "core/lane/shown_jobs.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace locksley {

ShownJobs::Shown* ShownJobs::shown(ShownJob& job) const {
  job.all_.mutex_.assume_held();  // it is mutex_
  return &job.shown_;
}

ShownJobs::Shown* ShownJobs::locate(const Batch& batch, std::uint64_t index) const {
  const auto found = by_job_.find({&batch, index});
  return found != by_job_.end() ? shown(*found->second) : nullptr;
}

std::optional<ShownJobs::View> ShownJobs::find(const Batch& batch, std::uint64_t index) const {
  const MutexLock lock(mutex_);
  const Shown* const found = locate(batch, index);
  if (found == nullptr) return std::nullopt;
  return view_of(*found, JobNotes::kMostText);
}

std::size_t ShownJobs::visit(std::size_t from, std::size_t most, std::size_t note_bytes,
                             const std::function<bool(const Batch&)>& is_wanted,
                             const std::function<void(View)>& take) const {
  const MutexLock lock(mutex_);
  const std::size_t end = from + std::min(most, all_.size() - std::min(all_.size(), from));
  for (; from < end; ++from) {
    const Shown& each = *shown(*all_[from]);
    if (each.batch != nullptr && !each.has_ended && is_wanted(*each.batch)) take(view_of(each, note_bytes));
  }
  return from < all_.size() ? from : 0;
}

void ShownJobs::set_starting(const Batch& batch, std::uint64_t first, bool is_starting) {
  const MutexLock lock(mutex_);
  if (is_starting) {
    starting_.insert({&batch, first});
  } else {
    starting_.erase({&batch, first});
  }
}

std::optional<std::uint64_t> ShownJobs::first_starting(const Batch& batch) const {
  const MutexLock lock(mutex_);
  const auto found = starting_.lower_bound({&batch, 0});
  if (found == starting_.end() || found->batch != &batch) return std::nullopt;
  return found->index;
}

std::optional<ShownJobs::Log> ShownJobs::read_log(const Batch& batch, std::uint64_t index,
                                                  std::uint64_t from) const {
  const MutexLock lock(mutex_);
  const Shown* const found = locate(batch, index);
  if (found == nullptr) return std::nullopt;
  return Log{found->log.end(), found->log.read(from)};
}

ShownJobs::Watch ShownJobs::watch(const Batch& batch, std::uint64_t index) {
  const MutexLock lock(mutex_);
  return watches_.add({&batch, index});
}

bool ShownJobs::is_watching(const Watch& watch) const {
  const MutexLock lock(mutex_);
  return watches_.lasts(watch);
}

void ShownJobs::unwatch(const Watch& watch) {
  const MutexLock lock(mutex_);
  watches_.remove(watch);
}

void ShownJobs::end_watches(Batch& batch, std::uint64_t index) {
  if (watches_.end_those_of({&batch, index}) && on_log_) on_log_(batch);
}

ShownJob::ShownJob(ShownJobs& all) : all_(all) {
  const MutexLock lock(all_.mutex_);
  shown_.place = all_.all_.size();
  all_.all_.push_back(this);
}

ShownJob::~ShownJob() {
  const MutexLock lock(all_.mutex_);
  forget();
  all_.all_[shown_.place] = all_.all_.back();
  all_.shown(*all_.all_[shown_.place])->place = shown_.place;
  all_.all_.pop_back();
}

void ShownJob::begin(const Job& job) {
  is_begun_ = true;
  note_saved_ = {};
  has_unsaved_note_ = false;
  has_reports_ = false;
  const MutexLock lock(all_.mutex_);
  forget();
  shown_.batch = &job.batch;
  shown_.index = job.index;
  if (shown_.spare_entry.empty()) {
    shown_.entry = all_.by_job_.insert({WatchedJob{&job.batch, job.index}, this});
  } else {
    shown_.spare_entry.key() = {&job.batch, job.index};
    shown_.entry = all_.by_job_.insert(std::move(shown_.spare_entry));
  }
  shown_.attempt = job.attempt;
  shown_.since = job.since;
  shown_.worker = job.worker;
  shown_.has_line_notes = job.has_line_notes;
  shown_.has_ended = false;
  all_.end_watches(job.batch, job.index);
}

void ShownJob::forget() {
  if (shown_.batch == nullptr) return;
  Batch* const batch = std::exchange(shown_.batch, nullptr);
  shown_.spare_entry = all_.by_job_.extract(shown_.entry);
  all_.end_watches(*batch, shown_.index);
  shown_.progress.reset();
  shown_.exit_status.reset();
  if (ResultAccount* const account = batch->options().results; account != nullptr && !shown_.note.empty()) {
    account->refund(shown_.note.size());
  }
  shown_.note.clear();
  shown_.log.clear();
}

void ShownJob::clear() {
  if (!std::exchange(is_begun_, false)) return;
  const MutexLock lock(all_.mutex_);
  forget();
}

void ShownJob::set_progress(std::uint32_t per_cent) {
  has_reports_ = true;
  const MutexLock lock(all_.mutex_);
  shown_.progress = per_cent;
}

void ShownJob::set_note(std::string_view text) {
  constexpr Nanoseconds kSaveAgain = std::chrono::seconds(1);  // guess: each is a step of the batch's journal
  has_reports_ = true;
  {
    const MutexLock lock(all_.mutex_);
    ResultAccount* const account = shown_.batch->options().results;
    const std::size_t before = shown_.note.size();
    text = text.substr(0, JobNotes::kMostText);
    if (account != nullptr && text.size() > before && account->is_full()) return;
    shown_.note = text;
    // Charged first, so that the account never seems to have room in between.
    if (account != nullptr && !shown_.note.empty()) account->charge(shown_.note.size());
    if (account != nullptr && before != 0) account->refund(before);
  }
  has_unsaved_note_ = true;
  const Nanoseconds now = steady_now();
  if (note_saved_.count() != 0 && now - note_saved_ < kSaveAgain) return;
  note_saved_ = now;
  save_note();
}

void ShownJob::save_note() {
  if (!std::exchange(has_unsaved_note_, false)) return;
  Batch* batch = nullptr;
  std::string note;
  {
    const MutexLock lock(all_.mutex_);
    batch = shown_.batch;
    note = shown_.note;
  }
  (void)batch->set_note(index(), note);
}

void ShownJob::set_exit_status(std::int32_t status) {
  has_reports_ = true;
  const MutexLock lock(all_.mutex_);
  shown_.exit_status = status;
}

void ShownJob::add_log(std::string_view bytes) {
  has_reports_ = true;
  const MutexLock lock(all_.mutex_);
  shown_.log.add(bytes, all_.budget_.get(), shown_.batch->options().results);
  all_.end_watches(*shown_.batch, shown_.index);
}

ShownJobs::View ShownJobs::view_of(const Shown& job, std::size_t note_bytes) const {
  const bool has_line_note = job.note.empty() && job.has_line_notes;
  return {.batch = job.batch->shared_from_this(),
          .index = job.index,
          .attempt = job.attempt,
          .since = job.since,
          .has_ended = job.has_ended,
          .worker = std::string(job.worker),
          .progress = job.progress,
          .note = has_line_note ? job.log.last_line(note_bytes) : job.note.substr(0, note_bytes),
          .log_end = job.log.end(),
          .exit_status = job.exit_status};
}

void ShownJob::append_facts(Nanoseconds now, std::optional<std::int32_t> exit_status, std::string& facts) {
  const MutexLock lock(all_.mutex_);
  shown_.has_ended = true;
  const bool has_line_note = shown_.note.empty() && shown_.has_line_notes;
  const std::string line = has_line_note ? shown_.log.last_line(JobNotes::kMostText) : std::string();
  const std::string log = shown_.log.read(0);
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(std::max(now - shown_.since, Nanoseconds{0}));
  encode({.attempt = shown_.attempt,
          .started_at = unix_milliseconds() - took.count() / 1000,
          .duration_us = took.count(),
          .worker = shown_.worker,
          .exit_status = exit_status ? exit_status : shown_.exit_status,
          .progress = shown_.progress,
          .note = has_line_note ? std::string_view(line) : std::string_view(shown_.note),
          .log_end = shown_.log.end(),
          .log = log},
         facts);
}

}  // namespace locksley
