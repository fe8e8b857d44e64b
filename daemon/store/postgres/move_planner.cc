#include "daemon/store/postgres/move_planner.h"

#include <algorithm>
#include <iterator>

namespace locksley::daemon {
namespace {

// One part in so many of what is live: the tables may be larger by it, and what was deleted from a settled table is left.
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
  std::vector<Span> due;
  std::ranges::copy_if(spans, std::back_inserter(due),
                       [this](const Span& span) { return known(span) == nullptr; });
  std::ranges::transform(known_, std::back_inserter(due), &Known::span);
  return due;
}

void MovePlanner::set(const Span& span, TableBytes bytes) {
  bytes.live = std::min(bytes.live, bytes.size);
  std::erase_if(known_, [&span](const Known& known) { return known.span == span; });
  known_.push_back({.span = span, .bytes = bytes});
  // The writer has put rows into it: results of a batch that had moved before it ended.
  for (Settled& settled : settled_) {
    if (settled.number == span.number) settled.filled = std::max(settled.filled, bytes.live);
  }
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
  std::ranges::sort(planned, {}, [](const Move& move) {
    return static_cast<double>(move.bytes.live) / static_cast<double>(move.bytes.size);
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
  const std::uint64_t deleted = settled->filled - std::min(settled->filled, known.bytes.live);
  if (state.needs_room && deleted >= settled->filled / 2) return true;
  return deleted >= settled->filled / 3 &&
         deleted > std::max(state.live / kSettledWasteShare, sizes_.least() / 2);
}

void MovePlanner::moved(const Span& from, const MoveStep& step, std::int16_t target, bool was_empty) {
  if (was_empty) {
    emptied(target);
    settled_.push_back({.number = target});
    known_.push_back({.span = {.table = table_, .first = from.first, .number = target}, .bytes = {}});
  }
  for (Settled& settled : settled_) {
    if (settled.number == target) settled.filled += step.bytes;
    if (settled.number == from.number) settled.filled -= std::min(settled.filled, step.bytes);
  }
  for (Known& known : known_) {
    if (known.span.number == target) {
      known.bytes.live += step.bytes;
      known.bytes.size += step.bytes;
    }
    if (known.span == from) {
      known.bytes.live -= std::min(known.bytes.live, step.bytes);
      if (step.end) known.span.first = *step.end;
    }
  }
  if (!step.end) emptied(from.number);
}

void MovePlanner::emptied(std::int16_t number) {
  std::erase_if(known_, [number](const Known& known) { return known.span.number == number; });
  std::erase_if(settled_, [number](const Settled& settled) { return settled.number == number; });
}

void MovePlanner::forget() {
  known_.clear();
  settled_.clear();
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
