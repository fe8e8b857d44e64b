#include "daemon/store/postgres/compaction.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kStepBytes = std::uint64_t{8} << 20;
// A batch that has more stays where it is until it is forgotten.
constexpr std::uint64_t kLargestBatch = 2 * kStepBytes;
// Reading what is live takes at most one part in so many of the time, and about so long between two beats.
constexpr int kLookingShare = 20;
constexpr auto kLookTime = std::chrono::milliseconds(40);
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
    if (hindrance_ != Freed::kDone) return {};
  }
  return compact(connection, table);
}

PgExpected<void> Compaction::compact(PgConnection& connection, Table table) {
  const std::optional<Generations> generations = copy();
  if (!generations) return {};
  const auto uses = look(connection, *generations, table);
  if (!uses) return std::unexpected(uses.error());
  const Instant end = now() + limits_.moving;
  for (const Move& what : moves(*generations, table, *uses)) {
    const auto moved = move(connection, what, end);
    if (!moved) return std::unexpected(moved.error());
    if (*moved) return {};
  }
  return {};
}

PgExpected<std::vector<TableUse>> Compaction::look(PgConnection& connection, const Generations& generations,
                                                   Table table) {
  Look& look = looks_[table == Table::kPayloads ? 0 : 1];
  const std::vector<Generations::Span> spans = generations.earlier(table);
  if (look.spans != spans) look = {.spans = spans, .uses = {}, .next = look.next};
  const Instant begun = now();
  if (spans.empty() || begun < look.next) return std::vector<TableUse>{};
  look.next = begun + kPauseAfterError;
  while (look.uses.size() < spans.size() && now() < begun + kLookTime) {
    const auto use = use_of(connection, spans[look.uses.size()], begun + limits_.reply);
    if (!use) return std::unexpected(use.error());
    // What takes too long to find out counts as nothing.
    look.uses.push_back(use->value_or(TableUse{.span = spans[look.uses.size()]}));
  }
  look.next = now() + kLookingShare * (now() - begun);
  if (look.uses.size() < spans.size()) return std::vector<TableUse>{};
  return std::exchange(look.uses, {});
}

std::vector<Compaction::Move> Compaction::moves(const Generations& generations, Table table,
                                                const std::vector<TableUse>& uses) const {
  std::uint64_t size = 0;
  std::uint64_t live = 0;
  for (const TableUse& use : uses) {
    size += use.size;
    live += use.live;
  }
  std::vector<Move> planned;
  const std::uint64_t enough = sizes_.enough().of(table);
  const bool is_wasteful = size > live + live / 5 + sizes_.least();
  if (!is_wasteful && !generations.lacks_tables(table, enough)) return planned;
  for (const TableUse& use : uses) {
    if (use.size == 0 || use.live > use.size / 2) continue;
    const std::int16_t number = generations.before(use.span);
    const auto before =
        std::ranges::find(uses, number, [](const TableUse& each) { return each.span.number; });
    planned.push_back({.span = use.span,
                       .joins = before != uses.end() && before->size < enough,
                       .live_part = static_cast<double>(use.live) / static_cast<double>(use.size)});
  }
  std::ranges::sort(planned, {}, &Move::live_part);
  return planned;
}

PgExpected<bool> Compaction::move(PgConnection& connection, Move what, Instant end) {
  do {
    const auto step = next_step(connection, what.span, kStepBytes, now() + limits_.reply);
    if (!step) return std::unexpected(step.error());
    if (!*step || (*step)->first_bytes > kLargestBatch) return false;
    const auto freed = change([&](Generations& mine) -> PgExpected<Freed> {
      // The table that was empty before may be that of a new generation now.
      std::int16_t target = what.joins ? Generations::kRest : mine.empty_table(what.span.table);
      if (target == Generations::kRest) target = mine.before(what.span);
      if (target == Generations::kRest) return Freed::kHasRows;
      return move_rows(connection, node_, what.span, **step, target, mine, now() + limits_.reply);
    });
    if (!freed) return std::unexpected(freed.error());
    if (*freed != Freed::kMoved) return *freed != Freed::kHasRows;
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
