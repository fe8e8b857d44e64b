#include "daemon/store/engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/store/engine/key.h"
#include "daemon/store/engine/merged_kinds.h"

namespace locksley::daemon {

std::expected<std::optional<FoundRow>, EngineError> Engine::first_row(const RowRange& range) {
  const auto at = scan(range);
  if (const auto status = at->status(); !status) return std::unexpected(status.error());
  if (!at->is_valid()) return std::nullopt;
  return FoundRow{std::string(at->key()), std::string(at->value())};
}

std::expected<RowValues, EngineError> Engine::get_within(Table table, std::span<const Key> keys,
                                                         std::chrono::milliseconds, ReadingConnection) {
  RowValues values;
  for (const Key& key : keys) {
    std::string value;
    const auto found = get(table, key, value);
    if (!found) return std::unexpected(found.error());
    values.push_back(*found ? std::optional(std::move(value)) : std::nullopt);
  }
  return values;
}

std::unique_ptr<RowCursor> Engine::scan_batches(std::span<const char> kinds) {
  std::vector<std::unique_ptr<RowCursor>> cursors;
  for (const char kind : kinds) {
    cursors.push_back(scan({.table = Table::kIndex,
                            .low = Key(kind),
                            .high = Key(static_cast<char>(kind + 1)),
                            .is_read_once = true}));
  }
  return std::make_unique<MergedKinds>(std::move(cursors));
}

std::expected<std::uint64_t, EngineError> Engine::highest_batch(std::span<const char> kinds) {
  std::uint64_t highest = 0;
  const auto look = [&](Table table, std::string_view low, std::string_view high) -> EngineDone {
    const std::string behind = std::string(low) + std::string(Key::kMost, '\xFF');
    const auto at = scan({.table = table, .low = low, .high = high, .from_at_most = behind});
    if (!at->is_valid()) return at->status();
    highest = std::max(highest, key_number(at->key().substr(low.size(), sizeof(std::uint64_t))));
    return {};
  };
  for (const char kind : kinds) {
    if (const auto looked = look(Table::kIndex, Key(kind), Key(static_cast<char>(kind + 1))); !looked) {
      return std::unexpected(looked.error());
    }
  }
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    if (const auto looked = look(table, {}, {}); !looked) return std::unexpected(looked.error());
  }
  return highest;
}

std::expected<bool, EngineError> EngineReading::get_within(Table table, const Key& key, std::string& value,
                                                           std::chrono::milliseconds patience) const {
  auto values = get_within(table, {&key, 1}, patience, ReadingConnection::kAny);
  if (!values) return std::unexpected(std::move(values.error()));
  const bool is_there = values->front().has_value();
  if (is_there) value = *std::move(values->front());
  return is_there;
}

EngineDone EngineReading::visit(const RowRange& range, const Visit& visit) const {
  const std::unique_ptr<RowCursor> at = scan(range);
  for (; at->is_valid(); at->next()) {
    if (!visit(at->key(), at->value())) break;
  }
  return at->status();
}

EngineDone EngineReading::visit_prefix(Table table, std::string_view prefix, const Visit& visit) const {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return this->visit({.table = table, .low = prefix, .high = end}, visit);
}

}  // namespace locksley::daemon
