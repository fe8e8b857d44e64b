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
  bool is_over = false;     // it was read; without a row and an error: it cannot be read now
  SharedChunk chunk;
  std::string error;  // not empty: the payload cannot be read, now or later
  std::optional<std::list<Held>::iterator> place;
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
  const Instant end = std::min(until, want->asked_at + options_.patience);
  while (!want->is_over && is_quick() && now() < end) arrived_.wait_until(mutex_, end);
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
    // Executors take the jobs that were handed back before all others. So if one asks for something
    // else, that job runs elsewhere, or its row is read again.
    const auto oldest =
        std::ranges::find_if(wants->all_, [](const SharedWant& each) { return each->is_over; });
    if (oldest == wants->all_.end()) return nullptr;
    remove(*wants, SharedWant(*oldest));
    has_room_.notify_all();
  }
  auto want = std::make_shared<Want>();
  want->index = index;
  want->asked_at = now();
  wants->all_.push_back(want);
  ++unread_;
  readers_.post([this, wants, want] { read(wants, want); }, wants->user_);
  return want;
}

bool PayloadFetcher::is_quick() const {
  if (held_bytes_ >= options_.most_held_bytes) return false;
  const auto rounds = static_cast<std::int64_t>((unread_ + options_.threads - 1) / options_.threads);
  return last_took_ * rounds <= options_.patience;
}

void PayloadFetcher::remove(Wants& wants, const SharedWant& want) {
  if (!std::exchange(want->is_wanted, false)) return;
  std::erase(wants.all_, want);
  if (!want->place) return;
  const std::uint64_t bytes = want->chunk->bytes.size();
  wants.held_bytes_ -= bytes;
  held_bytes_ -= bytes + kHeldOverhead;
  held_.erase(*std::exchange(want->place, std::nullopt));
}

void PayloadFetcher::drop(Wants& wants, const StoredChunk& chunk) {
  {
    const MutexLock lock(mutex_);
    const auto is_it = [&chunk](const SharedWant& want) { return want->chunk.get() == &chunk; };
    const auto found = std::ranges::find_if(wants.all_, is_it);
    if (found == wants.all_.end()) return;
    remove(wants, SharedWant(*found));
  }
  has_room_.notify_all();
}

void PayloadFetcher::close(Wants& wants) {
  {
    const MutexLock lock(mutex_);
    while (!wants.all_.empty()) remove(wants, SharedWant(wants.all_.back()));
  }
  has_room_.notify_all();
}

void PayloadFetcher::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  has_room_.notify_all();
  stop_.request_stop();
  readers_.stop();
}

// ---- The threads that read ----

bool PayloadFetcher::wait_for_room(const Want& want) {
  while (!stopping_ && want.is_wanted && held_bytes_ >= options_.most_held_bytes) {
    const Held oldest = held_.front();
    const Instant until = oldest.since + options_.longest_held;
    if (now() >= until) {
      remove(*oldest.wants, oldest.want);
    } else {
      has_room_.wait_until(mutex_, until);
    }
  }
  return !stopping_ && want.is_wanted;
}

// The server may be paused, or the connection may have broken: then a longer wait does not help.
// Else the row is large for the link.
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

void PayloadFetcher::read(const SharedWants& wants, const SharedWant& want) {
  std::chrono::milliseconds patience;
  {
    const MutexLock lock(mutex_);
    if (!wait_for_room(*want)) {
      --unread_;
      return;
    }
    patience = wants->patience_;
  }
  Outcome outcome;  // null: it cannot be read now
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
    --unread_;
    if (has_read) last_took_ = took;
    if (is_away && !stopping_) outcome = after_failure(*wants, patience, took >= patience);
    if (outcome && *outcome != nullptr) {
      wants->patience_ = ChunkPatience::after_success(
          std::chrono::duration_cast<std::chrono::milliseconds>(took), options_.longest_reading);
    }
    is_awaited = deliver(*wants, want, std::move(outcome));
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
  // Of other payloads in the same row one look is enough.
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
  const std::uint64_t bytes = want->chunk->bytes.size();
  wants.held_bytes_ += bytes;
  held_bytes_ += bytes + kHeldOverhead;
  want->place = held_.insert(held_.end(), Held{.wants = &wants, .want = want, .since = now()});
  return was_missed;
}

}  // namespace locksley::daemon
