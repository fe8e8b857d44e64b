#include "daemon/store/read/payload_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "daemon/store/read/reachability.h"

namespace locksley::daemon {

// A row that is on its way, or lies here. Guarded by the fetcher's mutex.
struct PayloadFetcher::Want {
  std::uint64_t index = 0;
  Instant asked_at;
  bool is_wanted = true;    // it is in Wants::all_
  bool was_missed = false;  // find() has returned null
  bool is_over = false;     // its reading has ended; without a row and an error: it cannot be read now
  SharedChunk chunk;
  std::string error;                                 // not empty: the payload cannot be read, now or later
  std::optional<std::list<Held>::iterator> place;    // while it lies here
  std::optional<std::list<Waiting>::iterator> line;  // before its reading begins

  std::uint64_t held_bytes() const { return chunk->bytes.size() + kHeldOverhead; }
};

PayloadFetcher::SharedWants PayloadFetcher::open(std::uint64_t sequence, Reader::User user) const {
  return std::make_shared<Wants>(sequence, user, options_.first_reading);
}

SharedChunk PayloadFetcher::find(const SharedWants& wants, std::uint64_t index, Look look, Instant until) {
  const MutexLock lock(mutex_);
  const auto has_it = [index](const SharedWant& want) {
    return want->chunk != nullptr ? want->chunk->has(index) : want->index == index;
  };
  const auto known = std::ranges::find_if(wants->all_, has_it);
  const SharedWant want = known != wants->all_.end() ? *known : ask(wants, index);
  if (want == nullptr) return nullptr;
  if (want->line) post_tasks();
  const Instant end = std::min(until, want->asked_at + options_.patience);
  while (!want->is_over && is_quick(wants->user_) && now() < end) {
    arrived_.wait_until(mutex_, end);
  }
  if (!want->error.empty()) {
    const std::string error = want->error;
    if (look == Look::kLast) remove(*wants, want);
    throw std::runtime_error(error);
  }
  want->was_missed = !want->is_over;
  return want->chunk;
}

PayloadFetcher::SharedWant PayloadFetcher::ask(const SharedWants& wants, std::uint64_t index) {
  if (stopping_ || !reachability_.is_reachable()) return nullptr;
  if (wants->all_.size() >= kMostWants) {
    // Executors take the jobs that were handed back before all others. So if an executor asks for
    // another row, the job of the oldest row runs elsewhere, or that row is read again.
    const auto oldest =
        std::ranges::find_if(wants->all_, [](const SharedWant& each) { return each->is_over; });
    if (oldest == wants->all_.end()) return nullptr;
    remove(*wants, SharedWant(*oldest));
    post_tasks();
  }
  auto want = std::make_shared<Want>();
  want->index = index;
  want->asked_at = now();
  wants->all_.push_back(want);
  std::list<Waiting>& waiting = parts_[wants->user_].waiting;
  want->line = waiting.insert(waiting.end(), Waiting{.wants = wants, .want = want});
  post_task(wants->user_);
  return want;
}

bool PayloadFetcher::is_quick(Reader::User user) const {
  if (is_full()) {
    const auto part = parts_.find(user);
    if (part == parts_.end() || row_to_evict(part->second, *largest_part()) == nullptr) return false;
  }
  // The user's reading will take about as long as its last one: another user's payloads may be much
  // larger. The rows that are read before it, while all threads are busy, may be those of any user.
  const auto own = last_took_of_.find(user);
  const Nanoseconds reading = own == last_took_of_.end() ? Nanoseconds{0} : own->second;
  const auto rounds_before =
      static_cast<std::int64_t>((std::max<std::size_t>(tasks_, 1) - 1) / options_.threads);
  return reading + last_took_ * rounds_before <= options_.patience;
}

void PayloadFetcher::remove(Wants& wants, const SharedWant& want) {
  if (!std::exchange(want->is_wanted, false)) return;
  std::erase(wants.all_, want);
  if (!want->place && !want->line) return;
  Part& part = parts_.at(wants.user_);
  if (want->line) part.waiting.erase(*std::exchange(want->line, std::nullopt));
  if (want->place) {
    wants.held_bytes_ -= want->chunk->bytes.size();
    held_bytes_ -= want->held_bytes();
    part.bytes -= want->held_bytes();
    part.held.erase(*std::exchange(want->place, std::nullopt));
  }
  forget_if_empty(wants.user_);
}

void PayloadFetcher::forget_if_empty(Reader::User user) {
  const auto part = parts_.find(user);
  if (part != parts_.end() && part->second.is_empty()) parts_.erase(part);
}

void PayloadFetcher::drop(Wants& wants, const StoredChunk& chunk) {
  const MutexLock lock(mutex_);
  const auto is_it = [&chunk](const SharedWant& want) { return want->chunk.get() == &chunk; };
  const auto found = std::ranges::find_if(wants.all_, is_it);
  if (found == wants.all_.end()) return;
  remove(wants, SharedWant(*found));
  post_tasks();
}

void PayloadFetcher::close(Wants& wants) {
  const MutexLock lock(mutex_);
  while (!wants.all_.empty()) remove(wants, SharedWant(wants.all_.back()));
  post_tasks();
}

void PayloadFetcher::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.request_stop();
  readers_.stop();
}

// ---- Room ----

const PayloadFetcher::Part* PayloadFetcher::largest_part() const {
  const auto bytes = [](const auto& each) { return each.second.bytes; };
  const auto largest = std::ranges::max_element(parts_, {}, bytes);
  return largest == parts_.end() ? nullptr : &largest->second;
}

const PayloadFetcher::Held* PayloadFetcher::row_to_evict(const Part& asking, const Part& largest) const {
  if (largest.held.empty()) return nullptr;
  const std::uint64_t rest = largest.bytes - largest.held.front().want->held_bytes();
  // `>` and not `>=`: two users that hold as much as each other could otherwise take room from each
  // other again and again. They cannot do so with an only row that is more than twice as large,
  // either.
  const bool is_much_larger = largest.held.size() == 1 && asking.bytes < largest.bytes / 2;
  const bool is_others = asking.bytes == 0 || rest > asking.bytes || is_much_larger;
  std::chrono::milliseconds stays{};
  if (!is_others) {
    stays = options_.longest_held;
  } else if (largest.held.size() == 1) {
    stays = std::min(options_.shortest_held, options_.longest_held);
  }
  const Held& oldest = is_others ? largest.held.front() : asking.held.front();
  return now() >= oldest.since + stays ? &oldest : nullptr;
}

bool PayloadFetcher::make_room(Reader::User user) {
  while (is_full()) {
    const Held* const found = row_to_evict(parts_.at(user), *largest_part());
    if (found == nullptr) return false;
    const Held evicted = *found;
    remove(*evicted.wants, evicted.want);
  }
  return true;
}

void PayloadFetcher::post_tasks() {
  if (stopping_) return;
  const Part* const largest = largest_part();
  for (auto& [user, part] : parts_) {
    while (part.tasks < std::min(options_.threads, part.waiting.size()) &&
           (!is_full() || row_to_evict(part, *largest) != nullptr)) {
      post_task(user);
    }
  }
}

void PayloadFetcher::post_task(Reader::User user) {
  ++tasks_;
  ++parts_[user].tasks;
  readers_.post([this, user] { read(user); }, user);
}

// ---- The threads that read ----

std::optional<PayloadFetcher::Waiting> PayloadFetcher::begin(Reader::User user) {
  std::list<Waiting>& waiting = parts_.at(user).waiting;
  if (stopping_ || waiting.empty() || !make_room(user)) return std::nullopt;
  Waiting first = waiting.front();
  waiting.erase(*std::exchange(first.want->line, std::nullopt));
  return first;
}

void PayloadFetcher::end_task(Reader::User user) {
  --tasks_;
  --parts_.at(user).tasks;
  post_tasks();
  forget_if_empty(user);
}

// The server may be paused, or the connection may have broken: then a longer wait does not help.
// Otherwise the row is large for the link.
PayloadFetcher::Outcome PayloadFetcher::after_failure(Wants& wants, std::chrono::milliseconds patience,
                                                      bool is_late) {
  const std::chrono::milliseconds longest = options_.longest_reading;
  if (!is_late || !reachability_.is_reachable()) {
    wants.patience_ =
        std::max(patience, ChunkPatience::after_failure(patience, std::min(longest, ChunkPatience::kMost)));
    return nullptr;
  }
  if (patience >= longest) {
    return std::unexpected(fmt::format("the database has not sent it within {:g} s",
                                       std::chrono::duration<double>(longest).count()));
  }
  wants.patience_ = ChunkPatience::after_failure(patience, longest);
  return nullptr;
}

void PayloadFetcher::read(Reader::User user) {
  std::optional<Waiting> reading;
  std::chrono::milliseconds patience;
  {
    const MutexLock lock(mutex_);
    reading = begin(user);
    if (!reading) {
      end_task(user);
      arrived_.notify_all();  // find() need not wait any longer
      return;
    }
    patience = reading->wants->patience_;
  }
  const auto& [wants, want] = *reading;
  Outcome outcome;  // null: the row cannot be read now
  bool is_away = false;
  const Instant began = now();
  const bool has_read = reachability_.is_reachable();
  if (has_read) {
    try {
      auto chunk = read_chunk(engine_, wants->sequence_, want->index, patience, stop_.get_token());
      is_away = !chunk && chunk.error().kind == EngineError::Kind::kAway;
      if (chunk) {
        outcome = *std::move(chunk);
      } else if (!is_away) {
        outcome = std::unexpected(fmt::format("cannot read the store: {}", chunk.error().what));
      }
    } catch (const std::exception& error) {
      outcome = std::unexpected(error.what());
    }
  }
  const auto took = now() - began;
  if (is_away) reachability_.note_away(wants->sequence_, stop_.get_token());
  bool is_awaited;
  {
    const MutexLock lock(mutex_);
    if (has_read) last_took_ = last_took_of_[user] = took;
    if (is_away && !stopping_) outcome = after_failure(*wants, patience, took >= patience);
    if (outcome && *outcome != nullptr) {
      wants->patience_ = ChunkPatience::after_success(
          std::chrono::duration_cast<std::chrono::milliseconds>(took), options_.longest_reading);
    }
    is_awaited = deliver(*wants, want, std::move(outcome));
    end_task(user);
  }
  arrived_.notify_all();
  if (is_awaited) on_arrival_(wants->sequence_);
}

bool PayloadFetcher::deliver(Wants& wants, const SharedWant& want, Outcome outcome) {
  want->is_over = true;
  bool was_missed = want->was_missed;
  if (!outcome) {
    want->error = std::move(outcome.error());
    return was_missed && want->is_wanted;
  }
  want->chunk = *std::move(outcome);
  if (want->chunk == nullptr) remove(wants, want);
  if (!want->is_wanted) return false;
  // For the other payloads in the same row this reading is enough.
  const auto is_same = [&](const SharedWant& each) {
    return !each->is_over && want->chunk->has(each->index);
  };
  for (auto same = wants.all_.begin();
       (same = std::ranges::find_if(wants.all_, is_same)) != wants.all_.end();) {
    const SharedWant each = *same;
    was_missed = was_missed || each->was_missed;
    remove(wants, each);
    each->is_over = true;
    each->chunk = want->chunk;
  }
  wants.held_bytes_ += want->chunk->bytes.size();
  held_bytes_ += want->held_bytes();
  Part& part = parts_[wants.user_];
  part.bytes += want->held_bytes();
  want->place = part.held.insert(part.held.end(), Held{.wants = &wants, .want = want, .since = now()});
  return was_missed;
}

}  // namespace locksley::daemon
