// New rows find their places in RocksDB's memtable from those of rows of their kind, and deleted
// ranges stay out of that.
#include "daemon/store/embedded/insert_hints.h"

#include <gmock/gmock.h>
#include <rocksdb/db.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/store/embedded/disk_reserve.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/embedded/rocks_options.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/seed.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

constexpr std::array kKinds{kAcceptedKey, kChangesKey, kEndKey, kFailedKey, kStepKey};

// An index, and what it should have.
class IndexBesideAModel {
 public:
  IndexBesideAModel() {
    auto opened =
        embedded_engine()({folder_.path().string(), config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    engine_ = std::move(*opened);
  }

  void put(std::string_view key, const std::string& value) {
    group().put(Table::kIndex, key, value);
    model_.insert_or_assign(std::string(key), value);
  }
  void erase(std::string_view key) {
    group().erase(Table::kIndex, key);
    model_.erase(std::string(key));
  }
  void erase_range(std::string_view low, std::string_view high) {
    group().erase_range(Table::kIndex, low, high, Engine::Group::Rows::kSomeOfThisGroup);
    model_.erase(model_.lower_bound(low), model_.lower_bound(high));
  }
  void commit() LOCKSLEY_REQUIRES(kStoreWriter) {
    ASSERT_TRUE(engine_->commit(group(), Engine::Sync::kWritten));
    group_.reset();
  }
  // As after a failure: what is in memory is read from the log again.
  void reopen() LOCKSLEY_REQUIRES(kStoreWriter) { ASSERT_TRUE(engine_->reopen()); }
  void expect_the_same() const {
    std::map<std::string, std::string, std::less<>> found;
    const EngineReading reading(*engine_);
    const auto read = reading.visit({.table = Table::kIndex, .low = "", .high = ""},
                                    [&](std::string_view key, std::string_view value) {
                                      found.emplace(key, value);
                                      return true;
                                    });
    EXPECT_TRUE(read);
    EXPECT_EQ(found, model_);
  }

 private:
  Engine::Group& group() {
    if (group_ == nullptr) group_ = engine_->new_group();
    return *group_;
  }

  const testing::TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine::Group> group_;
  std::map<std::string, std::string, std::less<>> model_;
};

TEST(InsertHintsTest, ARangeMayBeginWithARowOfAnyKind) {
  const ThreadRoleScope role(kStoreWriter);
  IndexBesideAModel index;
  for (const char kind : kKinds) {
    for (std::uint64_t batch = 0; batch < 40; ++batch) index.put(row_key(kind, batch), "value");
    index.commit();
    index.erase_range(row_key(kind, 10), row_key(kind, 30));
    index.erase_range(row_key(kind, 35), row_key(kind, 35));  // which is empty
    index.put(row_key(kind, 20), "again");
    index.commit();
    index.expect_the_same();
  }
  index.reopen();
  index.expect_the_same();
}

// Batches come, change and end, in no order, and ranges of their rows are deleted.
TEST(InsertHintsTest, RowsAndRangesInAnyOrderAreWhatTheyShouldBeAlsoAfterTheLogIsReplayed) {
  const ThreadRoleScope role(kStoreWriter);
  IndexBesideAModel index;
  std::mt19937_64 random = testing::stress_random(0);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (std::uint64_t round = 0; round < 300; ++round) {
    for (int change = 0; change < 20; ++change) {
      const char kind = kKinds.at(below(kKinds.size()));
      const std::uint64_t batch = round + below(200);
      const std::uint64_t what = below(10);
      if (what == 0) {
        index.erase_range(row_key(kind, batch), row_key(kind, batch + below(20)));
      } else if (what < 4) {
        index.erase(row_key(kind, batch));
      } else {
        index.put(row_key(kind, batch), std::to_string(random()));
      }
    }
    index.commit();
    if (round % 30 != 29) continue;
    index.expect_the_same();
    if (round % 60 == 59) index.reopen();
    index.expect_the_same();
  }
}

// How often RocksDB compares two keys to put the rows of small batches into `index`: in each group
// some are accepted, and those of the group before are deleted.
std::uint64_t comparisons(const rocksdb::ColumnFamilyOptions& index) {
  const testing::TemporaryFolder folder;
  rocksdb::DB* opened = nullptr;
  rocksdb::Options options({}, index);
  options.create_if_missing = true;
  if (!rocksdb::DB::Open(options, folder.path().string(), &opened).ok())
    throw std::runtime_error("not opened");
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  constexpr std::uint64_t kBatches = 20'000;
  constexpr std::uint64_t kGroup = 50;
  for (std::uint64_t group = 0; group < kBatches; group += kGroup) {
    rocksdb::WriteBatch rows;
    for (std::uint64_t batch = group; batch < group + kGroup; ++batch) {
      if (group != 0) rows.Delete(std::string_view(row_key(kAcceptedKey, batch - kGroup)));
    }
    for (std::uint64_t batch = group; batch < group + kGroup; ++batch) {
      rows.Put(std::string_view(row_key(kAcceptedKey, batch)), "value");
    }
    EXPECT_TRUE(db->Write({}, &rows).ok());
  }
  const std::uint64_t count = rocksdb::get_perf_context()->user_key_comparison_count;
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  return count;
}

TEST(InsertHintsTest, RowsOfSmallBatchesTakeFewerComparisons) {
  rocksdb::ColumnFamilyOptions index =
      families(StoreSizes::of(std::nullopt)).at(static_cast<std::size_t>(Table::kIndex)).options;
  const std::uint64_t with_hints = comparisons(index);
  index.memtable_insert_with_hint_prefix_extractor = nullptr;
  const std::uint64_t without = comparisons(index);
  EXPECT_LT(with_hints, without * 3 / 4) << "0.52 to 0.58 in three runs";
}

}  // namespace
}  // namespace locksley::daemon
