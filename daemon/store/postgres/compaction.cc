#include "daemon/store/postgres/compaction.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kStepBytes = std::uint64_t{8} << 20;
// A batch that has more stays where it is until it is forgotten.
constexpr std::uint64_t kLargestBatch = 2 * kStepBytes;
// Reading what is live takes at most one part in so many of the time, and about so long between two beats.
constexpr int kLookingShare = 20;
constexpr auto kLookTime = std::chrono::milliseconds(40);
// What may be wasted in a table with settled rows: one part in so many of what is live in all tables. Found by simulation, as the
// other shares below.
constexpr std::uint64_t kSettledShare = 16;
constexpr auto kPauseAfterError = std::chrono::minutes(1);

}  // namespace

PgExpected<Freed> Compaction::run(PgConnection& connection) {
  hindrance_ = Freed::kDone;
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    if (const auto done = run(connection, table); !done) return std::unexpected(done.error());
    if (hindrance_ != Freed::kDone) break;
  }
  return hindrance_;
}

PgExpected<void> Compaction::run(PgConnection& connection, Table table) {
  const std::optional<Generations> generations = copy();
  if (!generations) return {};
  for (const Generations::Span& span : generations->earlier(table)) {
    const auto freed = change([&](Generations& mine) {
      return truncate_if_empty(connection, node_, span, mine, now() + limits_.reply);
    });
    if (!freed) return std::unexpected(freed.error());
    if (*freed == Freed::kDone) std::erase(look_at(table).settled, span.number);
    if (hindrance_ != Freed::kDone) return {};
  }
  return compact(connection, table);
}

PgExpected<void> Compaction::compact(PgConnection& connection, Table table) {
  const std::optional<Generations> generations = copy();
  if (!generations) return {};
  const auto looked = look(connection, *generations, table);
  if (!looked) return std::unexpected(looked.error());
  if (!*looked) return {};
  const Instant end = now() + limits_.moving;
  const std::vector<Move> planned = moves(*generations, table);
  for (const Move& what : planned) {
    const auto moved = move(connection, what, end);
    if (!moved) return std::unexpected(moved.error());
    if (*moved) return {};
  }
  // None can move now, and to find that out has taken a while: not again before the next look at all tables.
  if (!planned.empty()) look_at(table).uses.clear();
  return {};
}

PgExpected<bool> Compaction::look(PgConnection& connection, const Generations& generations, Table table) {
  Look& look = look_at(table);
  const std::vector<Generations::Span> spans = generations.earlier(table);
  std::erase_if(look.uses,
                [&spans](const TableUse& use) { return std::ranges::find(spans, use.span) == spans.end(); });
  const Instant begun = now();
  if (!spans.empty() && begun >= look.next) {
    look.next = begun + kPauseAfterError;
    // First those that nothing is known of.
    std::vector<Generations::Span> due;
    std::ranges::copy_if(spans, std::back_inserter(due), [&look](const Generations::Span& span) {
      return std::ranges::find(look.uses, span, &TableUse::span) == look.uses.end();
    });
    std::ranges::transform(look.uses, std::back_inserter(due), &TableUse::span);
    const auto uses = uses_of(connection, due, begun + kLookTime, begun + limits_.reply);
    if (!uses) return std::unexpected(uses.error());
    for (const TableUse& use : *uses) {
      std::erase_if(look.uses, [&use](const TableUse& before) { return before.span == use.span; });
      look.uses.push_back(use);
    }
    look.next = now() + kLookingShare * (now() - begun);
  }
  return look.uses.size() == spans.size();
}

std::vector<Compaction::Move> Compaction::moves(const Generations& generations, Table table) const {
  const std::vector<TableUse>& uses = look_at(table).uses;
  std::uint64_t size = 0;
  std::uint64_t live = 0;
  for (const TableUse& use : uses) {
    size += use.bytes.size;
    live += use.bytes.live;
  }
  std::vector<Move> planned;
  const std::uint64_t enough = sizes_.enough().of(table);
  const bool is_wasteful = size > live + live / 5 + sizes_.least();
  const bool must_move = is_wasteful || generations.lacks_tables(table, enough);
  const std::uint64_t settled_waste = std::max(live / kSettledShare, sizes_.least() / 2);
  for (const TableUse& use : uses) {
    const TableBytes bytes = use.bytes;
    if (bytes.size == 0) continue;
    const bool is_settled =
        std::ranges::find(look_at(table).settled, use.span.number) != look_at(table).settled.end();
    const bool is_worth_it =
        is_settled && bytes.live <= bytes.size / 3 * 2 && bytes.size - bytes.live > settled_waste;
    if (!is_worth_it && !(must_move && bytes.live <= bytes.size / 2)) continue;
    const std::int16_t number = generations.before(use.span);
    const auto before =
        std::ranges::find(uses, number, [](const TableUse& each) { return each.span.number; });
    planned.push_back({.span = use.span,
                       .joins = before != uses.end() && before->bytes.size < enough,
                       .live_part = static_cast<double>(bytes.live) / static_cast<double>(bytes.size)});
  }
  std::ranges::sort(planned, {}, &Move::live_part);
  return planned;
}

PgExpected<bool> Compaction::move(PgConnection& connection, Move what, Instant end) {
  do {
    const auto step = next_step(connection, what.span, kStepBytes, now() + limits_.reply);
    if (!step) return std::unexpected(step.error());
    if (!*step || (*step)->first_bytes > kLargestBatch) return false;
    std::int16_t target = Generations::kRest;
    const auto freed = change([&](Generations& mine) -> PgExpected<Freed> {
      // The table that was empty before may be that of a new generation now.
      target = what.joins ? Generations::kRest : mine.empty_table(what.span.table);
      if (target == Generations::kRest) target = mine.before(what.span);
      if (target == Generations::kRest) return Freed::kHasRows;
      return move_rows(connection, node_, what.span, **step, target, mine, now() + limits_.reply);
    });
    if (!freed) return std::unexpected(freed.error());
    if (*freed == Freed::kHasRows) return false;
    Look& look = look_at(what.span.table);
    // It has more rows now.
    std::erase_if(look.uses, [target](const TableUse& use) { return use.span.number == target; });
    if (std::ranges::find(look.settled, target) == look.settled.end()) look.settled.push_back(target);
    if (*freed != Freed::kMoved) {
      std::erase(look.settled, what.span.number);
      return true;
    }
    what.span.first = *(*step)->end;
    what.joins = true;  // those that have moved are before it
  } while (now() < end);
  return true;
}

std::optional<Generations> Compaction::copy() {
  if (!generations_.lock_between_groups()) return std::nullopt;
  std::optional<Generations> copy;
  if (!generations_.are_unknown) copy = generations_.value;
  generations_.mutex.unlock();
  return copy;
}

PgExpected<Freed> Compaction::change(const std::function<PgExpected<Freed>(Generations&)>& change) {
  if (!generations_.lock_between_groups()) return Freed::kHasRows;
  PgExpected<Freed> freed = Freed::kHasRows;
  if (!generations_.are_unknown) {
    freed = change(generations_.value);
    generations_.are_unknown = !freed.has_value();
  }
  generations_.mutex.unlock();
  if (!freed) return freed;
  if (is_hindrance(*freed)) hindrance_ = *freed;
  return freed;
}

}  // namespace locksley::daemon
