#include "daemon/store/postgres/move_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace locksley::daemon {
namespace {

// The tables may be larger than their live rows by one part in so many, and as many deleted rows
// may stay in a settled table.
constexpr std::uint64_t kWasteShare = 5;
constexpr std::uint64_t kSettledWasteShare = 16;

}  // namespace

std::vector<MovePlanner::Span> MovePlanner::to_measure(const Generations& generations) {
  const std::vector<Span> spans = generations.earlier(table_);
  std::erase_if(known_,
                [&spans](const Known& known) { return std::ranges::find(spans, known.span) == spans.end(); });
  std::erase_if(settled_, [&spans](const Settled& settled) {
    return std::ranges::find(spans, settled.number, &Span::number) == spans.end();
  });
  std::erase_if(failed_,
                [&spans](const Span& span) { return std::ranges::find(spans, span) == spans.end(); });
  std::vector<Span> due;
  std::ranges::copy_if(spans, std::back_inserter(due),
                       [this](const Span& span) { return known(span) == nullptr; });
  std::ranges::transform(known_, std::back_inserter(due), &Known::span);
  return due;
}

void MovePlanner::set(const Span& span, std::optional<TableBytes> bytes) {
  if (bytes) count_written(span.number, bytes->size);
  const Known* const before = known(span);
  TableBytes now = bytes.value_or(before == nullptr ? TableBytes{} : before->bytes);
  now.live = std::min(now.live, now.size);
  std::erase_if(known_, [&span](const Known& known) { return known.span == span; });
  known_.push_back({.span = span, .bytes = now});
}

void MovePlanner::set_live(const Span& span, std::uint64_t live) {
  const auto known = std::ranges::find(known_, span, &Known::span);
  if (known != known_.end()) known->bytes.live = std::min(live, known->bytes.size);
}

void MovePlanner::count_written(std::int16_t number, std::uint64_t size) {
  const auto settled = std::ranges::find(settled_, number, &Settled::number);
  if (settled == settled_.end()) return;
  settled->written += size - std::min(size, settled->size);
  settled->size = std::max(size, settled->size);
  // Most of its rows are as young as those of a generation.
  if (settled->written > settled->moved_in) settled_.erase(settled);
}

std::optional<MovePlanner::State> MovePlanner::state(const Generations& generations) const {
  TableBytes all;
  for (const Span& span : generations.earlier(table_)) {
    const Known* const known = this->known(span);
    if (known == nullptr) return std::nullopt;
    all.size += known->bytes.size;
    all.live += known->bytes.live;
  }
  const bool is_wasteful = all.size > all.live + all.live / kWasteShare + sizes_.least();
  return State{.live = all.live,
               .needs_room = is_wasteful || generations.lacks_tables(table_, sizes_.enough().of(table_))};
}

std::vector<MovePlanner::Move> MovePlanner::moves(const Generations& generations) const {
  const std::optional<State> state = this->state(generations);
  if (!state) return {};
  std::vector<Move> planned;
  for (const Span& span : generations.earlier(table_)) {
    const Known& known = *this->known(span);
    if (!is_worth_moving(known, *state)) continue;
    const auto before = std::ranges::find(known_, generations.before(span),
                                          [](const Known& each) { return each.span.number; });
    const bool joins =
        before != known_.end() && before->bytes.size > 0 && before->bytes.size < sizes_.enough().of(table_);
    planned.push_back({.span = span, .joins = joins, .bytes = known.bytes});
  }
  std::ranges::sort(planned, {}, [this](const Move& move) {
    const bool has_failed = std::ranges::find(failed_, move.span) != failed_.end();
    return std::pair(has_failed, static_cast<double>(move.bytes.live) / static_cast<double>(move.bytes.size));
  });
  return planned;
}

bool MovePlanner::moves(const Generations& generations, const Span& span) const {
  const std::vector<Move> planned = moves(generations);
  return std::ranges::find(planned, span, &Move::span) != planned.end();
}

bool MovePlanner::is_worth_moving(const Known& known, const State& state) const {
  if (known.bytes.size == 0) return false;
  const Settled* const settled = this->settled(known.span.number);
  if (settled == nullptr) return state.needs_room && known.bytes.live <= known.bytes.size / 2;
  const std::uint64_t filled = settled->filled();
  const std::uint64_t deleted = filled - std::min(filled, known.bytes.live);
  if (state.needs_room && deleted >= filled / 2) return true;
  return deleted >= filled / 3 && deleted > std::max(state.live / kSettledWasteShare, sizes_.least() / 2);
}

void MovePlanner::moved(const Span& from, const MoveStep& step, const Target& target) {
  if (target.was_empty) {
    emptied(target.number);
    settled_.push_back({.number = target.number, .size = target.size_before});
    known_.push_back({.span = {.table = table_, .first = from.first, .number = target.number}, .bytes = {}});
  } else {
    count_written(target.number, target.size_before);
  }
  for (Settled& settled : settled_) {
    if (settled.number == target.number) {
      settled.moved_in += step.bytes;
      settled.size = target.size;
    }
    if (settled.number == from.number && settled.filled() != 0) {
      // As much of both, since it is not known which of its rows have moved.
      const double left =
          1 - std::min(1.0, static_cast<double>(step.bytes) / static_cast<double>(settled.filled()));
      settled.moved_in = static_cast<std::uint64_t>(static_cast<double>(settled.moved_in) * left);
      settled.written = static_cast<std::uint64_t>(static_cast<double>(settled.written) * left);
    }
  }
  for (Known& known : known_) {
    if (known.span.number == target.number) {
      known.bytes.live += step.bytes;
      known.bytes.size = target.size;
    }
    if (known.span == from) {
      known.bytes.live -= std::min(known.bytes.live, step.bytes);
      if (step.end) known.span.first = *step.end;
    }
  }
  if (!step.end) emptied(from.number);
}

void MovePlanner::failed(const Span& span) {
  // Once each of them has failed, they are tried again, in the same order as at first.
  if (std::ranges::find(failed_, span) != failed_.end()) failed_.clear();
  failed_.push_back(span);
}

void MovePlanner::emptied(std::int16_t number) {
  std::erase_if(known_, [number](const Known& known) { return known.span.number == number; });
  std::erase_if(settled_, [number](const Settled& settled) { return settled.number == number; });
}

void MovePlanner::forget() {
  known_.clear();
  settled_.clear();
  failed_.clear();
}

const MovePlanner::Known* MovePlanner::known(const Span& span) const {
  const auto found = std::ranges::find(known_, span, &Known::span);
  return found == known_.end() ? nullptr : &*found;
}

const MovePlanner::Settled* MovePlanner::settled(std::int16_t number) const {
  const auto found = std::ranges::find(settled_, number, &Settled::number);
  return found == settled_.end() ? nullptr : &*found;
}

}  // namespace locksley::daemon
