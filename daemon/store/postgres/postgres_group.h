// The changes of a group, as PostgreSQL takes them. Internal to daemon/store/postgres. The writer's
// thread only.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/row_place.h"

namespace locksley::daemon {

// The net effect of a group: first its ranges are deleted, then single rows, then rows are put,
// each once. A deleted range also removes rows that the group had put into it before; rows that are
// put later stay. So the result is that of the changes in their order.
class PostgresGroup final : public Engine::Group {
 public:
  // None: the row is deleted.
  using Value = std::optional<std::string>;
  struct OfTable {
    std::map<RowPlace, Value> rows;
    std::map<std::string, Value, std::less<>> names;
    std::vector<PlaceRange> ranges;
    struct NameRange {
      std::string low;
      std::string high;  // empty: no bound
    };
    std::vector<NameRange> name_ranges;
  };

  void put(Table table, std::string_view key, std::string_view value) override {
    set(table, key, std::string(value));
  }
  void erase(Table table, std::string_view key) override { set(table, key, std::nullopt); }
  void erase_range(Table table, std::string_view low, std::string_view high, Rows rows) override;
  std::size_t size_bytes() const override { return bytes_; }
  bool empty() const override { return is_empty_; }
  void clear() override;

  const OfTable& of(Table table) const { return tables_[static_cast<std::size_t>(table)]; }

 private:
  void set(Table table, std::string_view key, Value value);

  std::array<OfTable, kTables> tables_;
  std::size_t bytes_ = 0;
  bool is_empty_ = true;
};

}  // namespace locksley::daemon
