#include "daemon/store/postgres/generations.h"

#include <algorithm>

namespace locksley::daemon {

bool Generations::OfTable::is_full(std::uint64_t enough) const {
  return spans.empty() || spans.back().number == kRest || bytes >= enough;
}

bool Generations::OfTable::can_begin() const {
  const auto used = std::ranges::count_if(spans, [](const Span& span) { return span.number != kRest; });
  return used + 2 <= kTablesOfBatches;
}

std::int16_t Generations::OfTable::empty_table() const {
  for (std::int16_t number = 1; number <= kTablesOfBatches; ++number) {
    if (std::ranges::find(spans, number, &Span::number) == spans.end()) return number;
  }
  return kRest;
}

void Generations::load(const std::vector<Span>& spans, std::int64_t last_payloads,
                       std::int64_t last_results) {
  payloads_ = {.spans = {}, .last = last_payloads};
  results_ = {.spans = {}, .last = last_results};
  for (const Span& span : spans) of(span.table).spans.push_back(span);
}

std::int16_t Generations::number_of(Table table, std::int64_t batch) const {
  const std::vector<Span>& spans = of(table).spans;
  const auto after = std::ranges::upper_bound(spans, batch, {}, &Span::first);
  return after == spans.begin() ? kRest : std::prev(after)->number;
}

std::vector<Generations::Span> Generations::begin(const Enough& enough) {
  std::vector<Span> begun;
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    OfTable& mine = of(table);
    if (!mine.is_full(enough.of(table)) || !mine.can_begin()) continue;
    // After all batches that have rows, so that no batch has rows in two tables.
    std::int64_t first = mine.last + 1;
    if (!mine.spans.empty()) first = std::max(first, mine.spans.back().first + 1);
    mine.spans.push_back({.table = table, .first = first, .number = mine.empty_table()});
    mine.bytes = 0;
    begun.push_back(mine.spans.back());
  }
  return begun;
}

void Generations::count(const PostgresGroup& group) {
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    OfTable& mine = of(table);
    for (const auto& [place, value] : group.of(table).rows) {
      if (!value) continue;
      mine.last = std::max(mine.last, place.batch);
      if (!mine.spans.empty() && place.batch >= mine.spans.back().first) mine.bytes += value->size();
    }
  }
}

std::vector<Generations::Span> Generations::earlier(Table table) const {
  std::vector<Span> earlier = of(table).spans;
  if (!earlier.empty()) earlier.pop_back();
  std::erase_if(earlier, [](const Span& span) { return span.number == kRest; });
  return earlier;
}

bool Generations::lacks_tables(Table table, std::uint64_t enough) const {
  return of(table).is_full(enough) && !of(table).can_begin();
}

std::int16_t Generations::before(const Span& span) const {
  const std::vector<Span>& spans = of(span.table).spans;
  const auto at = std::ranges::find(spans, span);
  return at == spans.end() || at == spans.begin() ? kRest : std::prev(at)->number;
}

void Generations::move(const Span& span, std::optional<std::int64_t> end, std::int16_t target) {
  std::vector<Span>& spans = of(span.table).spans;
  const auto at = std::ranges::find(spans, span);
  if (at == spans.end()) return;
  const bool joins = before(span) == target;
  if (!end) {
    if (joins) {
      spans.erase(at);
    } else {
      at->number = target;
    }
    return;
  }
  at->first = *end;
  if (!joins) spans.insert(at, {.table = span.table, .first = span.first, .number = target});
}

void Generations::end(const Span& span) {
  std::vector<Span>& spans = of(span.table).spans;
  // Its batches have no rows, so they may be counted among those of the span before.
  if (const auto at = std::ranges::find(spans, span); at != spans.end()) spans.erase(at);
}

}  // namespace locksley::daemon
