#include "core/lane/shown_jobs.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace locksley {

ShownJob* ShownJobs::locate(const Batch& batch, std::uint64_t index) const {
  const auto found = by_job_.find({&batch, index});
  return found != by_job_.end() ? found->second : nullptr;
}

std::optional<ShownJobs::View> ShownJobs::find(const Batch& batch, std::uint64_t index) const {
  const MutexLock lock(mutex_);
  const ShownJob* const found = locate(batch, index);
  if (found == nullptr) return std::nullopt;
  return view_of(*found, JobNotes::kMostText);
}

std::size_t ShownJobs::visit(std::size_t from, std::size_t most, std::size_t note_bytes,
                             const std::function<bool(const Batch&)>& is_wanted,
                             const std::function<void(View)>& take) const {
  const MutexLock lock(mutex_);
  const std::size_t end = from + std::min(most, all_.size() - std::min(all_.size(), from));
  for (; from < end; ++from) {
    const ShownJob& each = *all_[from];
    if (each.batch_ != nullptr && !each.has_ended_ && is_wanted(*each.batch_))
      take(view_of(each, note_bytes));
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
  const ShownJob* const found = locate(batch, index);
  if (found == nullptr) return std::nullopt;
  return Log{found->log_.end(), found->log_.read(from)};
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

void ShownJobs::tell(Batch& batch, std::uint64_t index) {
  if (watches_.end_those_of({&batch, index}) && on_log_) on_log_(batch);
}

ShownJob::ShownJob(ShownJobs& all) : all_(all) {
  const MutexLock lock(all_.mutex_);
  place_ = all_.all_.size();
  all_.all_.push_back(this);
}

ShownJob::~ShownJob() {
  const MutexLock lock(all_.mutex_);
  forget();
  all_.all_[place_] = all_.all_.back();
  all_.all_[place_]->place_ = place_;
  all_.all_.pop_back();
}

void ShownJob::begin(const Job& job) {
  is_begun_ = true;
  note_saved_ = {};
  has_unsaved_note_ = false;
  has_reports_ = false;
  const MutexLock lock(all_.mutex_);
  forget();
  batch_ = &job.batch;
  index_ = job.index;
  if (spare_entry_.empty()) {
    entry_ = all_.by_job_.insert({WatchedJob{&job.batch, job.index}, this});
  } else {
    spare_entry_.key() = {&job.batch, job.index};
    entry_ = all_.by_job_.insert(std::move(spare_entry_));
  }
  attempt_ = job.attempt;
  since_ = job.since;
  worker_ = job.worker;
  has_line_notes_ = job.has_line_notes;
  has_ended_ = false;
  all_.tell(job.batch, job.index);
}

void ShownJob::forget() {
  if (batch_ == nullptr) return;
  Batch* const batch = std::exchange(batch_, nullptr);
  spare_entry_ = all_.by_job_.extract(entry_);
  all_.tell(*batch, index_);
  progress_.reset();
  exit_status_.reset();
  if (ResultAccount* const account = batch->options().results; account != nullptr && !note_.empty()) {
    account->refund(note_.size());
  }
  note_.clear();
  log_.clear();
}

void ShownJob::clear() {
  if (!std::exchange(is_begun_, false)) return;
  const MutexLock lock(all_.mutex_);
  forget();
}

void ShownJob::set_progress(std::uint32_t per_cent) {
  has_reports_ = true;
  const MutexLock lock(all_.mutex_);
  progress_ = per_cent;
}

void ShownJob::set_note(std::string_view text) {
  constexpr Nanoseconds kSaveAgain = std::chrono::seconds(1);  // guess: each is a step of the batch's journal
  has_reports_ = true;
  {
    const MutexLock lock(all_.mutex_);
    ResultAccount* const account = batch_->options().results;
    const std::size_t before = note_.size();
    text = text.substr(0, JobNotes::kMostText);
    if (account != nullptr && text.size() > before && account->is_full()) return;
    note_ = text;
    // Charged first, so that the account never seems to have room in between.
    if (account != nullptr && !note_.empty()) account->charge(note_.size());
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
    batch = batch_;
    note = note_;
  }
  (void)batch->set_note(index_, note);
}

void ShownJob::set_exit_status(std::int32_t status) {
  has_reports_ = true;
  const MutexLock lock(all_.mutex_);
  exit_status_ = status;
}

void ShownJob::add_log(std::string_view bytes) {
  has_reports_ = true;
  const MutexLock lock(all_.mutex_);
  log_.add(bytes, all_.budget_.get(), batch_->options().results);
  all_.tell(*batch_, index_);
}

ShownJobs::View ShownJobs::view_of(const ShownJob& job, std::size_t note_bytes) const {
  const bool has_line_note = job.note_.empty() && job.has_line_notes_;
  return {.batch = job.batch_->shared_from_this(),
          .index = job.index_,
          .attempt = job.attempt_,
          .since = job.since_,
          .has_ended = job.has_ended_,
          .worker = std::string(job.worker_),
          .progress = job.progress_,
          .note = has_line_note ? job.log_.last_line(note_bytes) : job.note_.substr(0, note_bytes),
          .log_end = job.log_.end(),
          .exit_status = job.exit_status_};
}

void ShownJob::append_facts(Nanoseconds now, std::optional<std::int32_t> exit_status, std::string& facts) {
  const MutexLock lock(all_.mutex_);
  has_ended_ = true;
  const bool has_line_note = note_.empty() && has_line_notes_;
  const std::string line = has_line_note ? log_.last_line(JobNotes::kMostText) : std::string();
  const std::string log = log_.read(0);
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(std::max(now - since_, Nanoseconds{0}));
  encode({.attempt = attempt_,
          .started_at = unix_milliseconds() - took.count() / 1000,
          .duration_us = took.count(),
          .worker = worker_,
          .exit_status = exit_status ? exit_status : exit_status_,
          .progress = progress_,
          .note = has_line_note ? std::string_view(line) : std::string_view(note_),
          .log_end = log_.end(),
          .log = log},
         facts);
}

}  // namespace locksley
