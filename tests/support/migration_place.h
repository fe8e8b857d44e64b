// Stores for the tests of the migration.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/store/migration/migration.h"
#include "daemon/store/migration_mark.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/store.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"

namespace locksley::testing {

using daemon::Engine;
using daemon::EngineReading;
using daemon::Table;

// All rows of a store, except the format and the mark.
using TableRows = std::array<std::map<std::string, std::string>, daemon::kTables>;

// A store in memory that no daemon has open, with small groups.
class MigrationPlace {
 public:
  MigrationPlace() { dynamic_cast<MemoryDisk&>(*disk).write_ahead_bytes = 10'000; }

  std::unique_ptr<Engine> open() {
    auto opened = disk->engine()({folder.path().string(), config::Durability::kFsync, silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return *std::move(opened);
  }
  void edit(const std::function<void(Engine::Group&)>& change) {
    const auto engine = open();
    const ThreadRoleScope role(daemon::kStoreWriter);
    const auto group = engine->new_group();
    change(*group);
    EXPECT_TRUE(engine->commit(*group, Engine::Sync::kSynced).has_value());
  }
  TableRows rows() {
    const auto engine = open();
    const EngineReading reading(*engine);
    TableRows rows;
    for (const Table table : {Table::kIndex, Table::kPayloads, Table::kResults}) {
      const auto read = reading.visit({.table = table, .low = "", .high = ""},
                                      [&](std::string_view key, std::string_view value) {
                                        rows[static_cast<std::size_t>(table)].emplace(key, value);
                                        return true;
                                      });
      EXPECT_TRUE(read.has_value());
    }
    rows[0].erase(std::string(1, daemon::kFormKey));
    rows[0].erase(std::string(1, daemon::kMigrationKey));
    return rows;
  }
  std::string value_of(char key) {
    const auto engine = open();
    const EngineReading reading(*engine);
    std::string value;
    const auto found = reading.get(Table::kIndex, daemon::Key(key), value);
    EXPECT_TRUE(found.has_value());
    return found.value_or(false) ? value : "";
  }
  std::string form() { return value_of(daemon::kFormKey); }
  std::string mark() { return value_of(daemon::kMigrationKey); }
  // Opens the store as a daemon that starts; returns the error, or an empty text.
  std::string start() {
    const auto store =
        daemon::Store::open({.path = folder.path().string(), .engine = disk->engine()}, silent_log());
    return store ? "" : store.error().what;
  }
  std::string name() const { return disk->place(folder.path()); }

  const TemporaryFolder folder;
  const std::unique_ptr<StoreDisk> disk = make_store_disk(folder.path(), 1);
};

// Rows of all kinds, some of which are larger than a group.
inline void fill(MigrationPlace& place) {
  EXPECT_EQ(place.start(), "");
  place.edit([](Engine::Group& group) {
    for (std::uint64_t batch = 1; batch <= 20; ++batch) {
      group.put(Table::kIndex, daemon::row_key(daemon::kAcceptedKey, batch),
                "accepted " + std::to_string(batch));
      if (batch % 3 == 0) group.put(Table::kIndex, daemon::row_key(daemon::kChangesKey, batch), "changed");
      if (batch % 4 == 0) group.put(Table::kIndex, daemon::row_key(daemon::kEndKey, batch), "ended");
      for (std::uint64_t step = 0; batch % 4 == 1 && step < 3; ++step) {
        group.put(Table::kIndex, daemon::step_key(batch, step), std::string(20, 's'));
      }
      if (batch % 8 == 0) group.put(Table::kIndex, daemon::failed_key(batch, 0), "failed");
      group.put(Table::kPayloads, daemon::part_key(batch, 0), std::string(batch == 10 ? 12'000 : 600, 'p'));
      if (batch % 10 == 7) group.put(Table::kPayloads, daemon::part_key(batch, 4096), std::string(4000, 'q'));
      group.put(Table::kResults, daemon::part_key(batch, 0), std::string(700, 'r'));
      group.put(Table::kResults, daemon::mark_key(batch, 0), "");
    }
    // A batch after many that were forgotten.
    group.put(Table::kIndex, daemon::row_key(daemon::kAcceptedKey, 5'000'000), "far");
    group.put(Table::kPayloads, daemon::part_key(5'000'000, 0), "far");
    group.put(Table::kIndex, daemon::customer_key("user", "customer"), "settings");
    group.put(Table::kIndex, daemon::customer_key("user", "zoo"), "settings");
  });
}

// One run: how it ended, and in which phases it asked whether to go on.
struct MigrationRun {
  std::expected<daemon::Migration::Outcome, daemon::MigrationError> outcome;
  std::array<daemon::TableSum, daemon::kTables> sums;
  std::vector<daemon::Migration::Phase> asked;
};
inline MigrationRun run(
    MigrationPlace& from, MigrationPlace& to,
    const std::function<bool(daemon::Migration::Phase)>& goes_on = [](daemon::Migration::Phase) {
      return true;
    }) {
  const auto source = from.open();
  const auto target = to.open();
  std::vector<daemon::Migration::Phase> asked;
  daemon::Migration migration(*source, *target, silent_log(),
                              [&](const daemon::Migration::Progress& progress) {
                                asked.push_back(progress.phase);
                                return goes_on(progress.phase);
                              });
  const ThreadRoleScope role(daemon::kStoreWriter);
  auto outcome = migration.run();
  return {std::move(outcome), migration.sums(), std::move(asked)};
}

// The outcome, or the kind of the error with its words.
inline std::string said(const MigrationRun& run) {
  if (run.outcome) {
    constexpr std::array kNames{"done", "done before", "stopped"};
    return kNames[static_cast<std::size_t>(*run.outcome)];
  }
  constexpr std::array kNames{"refused", "failed", "lost", "different"};
  return std::string(kNames[static_cast<std::size_t>(run.outcome.error().kind)]) + ": " +
         run.outcome.error().what;
}

}  // namespace locksley::testing
