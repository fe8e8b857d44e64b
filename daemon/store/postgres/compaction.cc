#include "daemon/store/postgres/compaction.h"

#include <chrono>
#include <cstddef>
#include <vector>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kStepBytes = std::uint64_t{8} << 20;
// A batch that has more stays where it is until it is forgotten.
constexpr std::uint64_t kLargestBatch = 2 * kStepBytes;
// Measuring takes about this long between two beats.
constexpr auto kMeasureTime = std::chrono::milliseconds(40);
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
    if (*freed == Freed::kForbidden || *freed == Freed::kFenced) return {};
    if (*freed == Freed::kDone) way(table).planner.emptied(span.number);
  }
  if (hindrance_ != Freed::kDone) return {};
  return compact(connection, table);
}

PgExpected<void> Compaction::compact(PgConnection& connection, Table table) {
  const std::optional<Generations> generations = copy();
  if (!generations) return {};
  Way& way = this->way(table);
  if (const auto measured = measure(connection, *generations, way); !measured) return measured;
  const Instant begun = now();
  if (begun < way.next_move) return {};
  is_writer_busy_ = false;
  const Instant end = begun + limits_.moving;
  const std::vector<MovePlanner::Move> planned = way.planner.moves(*generations);
  for (const MovePlanner::Move& what : planned) {
    const auto moved = move(connection, *generations, what, end);
    if (!moved) return std::unexpected(moved.error());
    if (*moved || is_writer_busy_) return {};
    way.planner.failed(what.span);
    if (hindrance_ != Freed::kDone) return {};
    if (now() >= end) break;
  }
  if (!planned.empty()) way.next_move = now() + limits_.pauses * (now() - begun);
  return {};
}

PgExpected<void> Compaction::measure(PgConnection& connection, const Generations& generations, Way& way) {
  const std::vector<Generations::Span> spans = way.planner.to_measure(generations);
  const Instant begun = now();
  if (spans.empty() || begun < way.next_measurement) return {};
  way.next_measurement = begun + kPauseAfterError;
  const auto found = bytes_of_first(connection, spans, begun + kMeasureTime, begun + limits_.reply);
  if (!found) return std::unexpected(found.error());
  for (std::size_t i = 0; i < found->size(); ++i) way.planner.set(spans[i], (*found)[i]);
  way.next_measurement = now() + limits_.pauses * (now() - begun);
  return {};
}

PgExpected<bool> Compaction::move(PgConnection& connection, const Generations& generations,
                                  MovePlanner::Move what, Instant end) {
  MovePlanner& planner = way(what.span.table).planner;
  bool has_moved = false;
  do {
    const auto step = next_step(connection, what.span, kStepBytes, now() + limits_.reply);
    if (!step) return std::unexpected(step.error());
    if (!*step || (*step)->first_bytes > kLargestBatch) return has_moved;
    if (!has_moved) {
      // It was planned by an estimate, and this is exact.
      planner.set_live(what.span, (*step)->table_bytes);
      if (!planner.moves(generations, what.span)) return false;
    }
    MovePlanner::Target target;
    const auto freed = change([&](Generations& mine) -> PgExpected<Freed> {
      // The table that was empty before may be that of a new generation now.
      target.number = what.joins ? Generations::kRest : mine.empty_table(what.span.table);
      target.was_empty = target.number != Generations::kRest;
      if (!target.was_empty) target.number = mine.before(what.span);
      if (target.number == Generations::kRest) return Freed::kHasRows;
      return move_rows(connection, node_, what.span, **step, target, mine, now() + limits_.reply);
    });
    if (!freed) return std::unexpected(freed.error());
    if (*freed != Freed::kMoved && *freed != Freed::kDone) return has_moved;
    has_moved = true;
    planner.moved(what.span, **step, target);
    if (*freed == Freed::kDone) return true;
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
  if (!generations_.lock_between_groups()) {
    is_writer_busy_ = true;
    return Freed::kHasRows;
  }
  is_writer_busy_ = false;
  PgExpected<Freed> freed = Freed::kHasRows;
  if (!generations_.are_unknown) {
    freed = change(generations_.value);
    generations_.are_unknown = !freed.has_value();
    if (!freed) {
      for (Way& way : ways_) way.planner.forget();
    }
  }
  generations_.mutex.unlock();
  if (!freed) return freed;
  if (is_hindrance(*freed)) hindrance_ = *freed;
  return freed;
}

}  // namespace locksley::daemon
