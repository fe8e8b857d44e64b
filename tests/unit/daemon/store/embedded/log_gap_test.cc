// A log without some of its pages, as a power loss may leave one that was not synced.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/rocks_disk.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using config::Durability;
using testing::accept_batch;
using testing::files_of;
using ::testing::HasSubstr;
using testing::Picture;
using testing::StoreBench;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPagesOfBlock = 8;  // RocksDB's logs have blocks of 32 KiB
constexpr std::uint64_t kPages = 4 * kPagesOfBlock;

// The store that a crash leaves. Its log has one batch's record on each page except the first few,
// so that a lost page holds whole records only, and RocksDB does not notice the loss at the page's
// ends.
class CrashedStore {
 public:
  explicit CrashedStore(Durability durability) : bench(1, durability) {
    bench.open();
    constexpr std::uint64_t kBytes = 2000;
    const std::uint64_t record = add_batch(kBytes);
    add_batch(kBytes + 2 * kPage - log_size() % kPage - record);  // to the end of a page
    while (log_size() < kPages * kPage) add_batch(kBytes + kPage - record);
    if (log_size() % kPage != 0) throw std::runtime_error("the records are not as long as pages");
    files_of(bench).cut_power();
    bench.close();
    files_of(bench).restore_power();
  }

  // The number of batches whose records end before `end`.
  std::size_t batches_before(std::uint64_t end) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, end) - ends_.begin());
  }

  void lose(std::uint64_t from, std::uint64_t to) const {
    std::fstream file(log(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(from));
    file << std::string(to - from, '\0');
  }

  StoreBench bench;

 private:
  // Adds a batch of so many bytes; returns by how much the log has grown.
  std::uint64_t add_batch(std::uint64_t bytes) {
    const std::uint64_t before = ends_.empty() ? log_size() : ends_.back();
    AcceptBatch accept = accept_batch(ends_.size() + 1, 0);
    accept.row.options.id = fmt::format("batch-{:04}", accept.sequence);  // all of the same length
    accept.row.jobs = 1;
    accept.row.payload_bytes = bytes;
    accept.payloads = testing::payloads_of({std::string(bytes, 'x')});
    bench.commit(std::move(accept));
    ends_.push_back(log_size());
    return ends_.back() - before;
  }

  // Without the zeros ahead: the end of the last fragment of a record
  // (daemon/store/embedded/torn_log.h).
  std::uint64_t log_size() const {
    constexpr std::uint64_t kHeader = 7;
    std::ifstream file(log(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::uint64_t end = 0;
    for (std::uint64_t at = 0; at + kHeader <= bytes.size();) {
      const std::uint64_t left = kPagesOfBlock * kPage - at % (kPagesOfBlock * kPage);
      const auto byte = [&](std::uint64_t i) { return static_cast<std::uint8_t>(bytes[at + i]); };
      const std::uint64_t length = byte(4) + (std::uint64_t{byte(5)} << 8U);
      if (left >= kHeader && byte(6) == 0) break;
      at += left < kHeader ? left : kHeader + length;
      if (left >= kHeader) end = at;
    }
    return end;
  }
  std::filesystem::path log() const {
    for (const auto& entry : std::filesystem::directory_iterator(bench.folder.path())) {
      if (entry.path().extension() == ".log") return entry.path();
    }
    throw std::runtime_error("the store has no log");
  }

  std::vector<std::uint64_t> ends_;  // of the batches' records, in the log
};

// Single pages, of each block the first, the last and one between, and whole blocks; but none of
// the last block, where RocksDB takes a gap for the log's end.
void for_each_gap(const std::function<void(std::uint64_t from, std::uint64_t to)>& visit) {
  struct Pages {
    std::uint64_t first;
    std::uint64_t count;
  };
  constexpr std::array<Pages, 4> kLost{{{0, 1}, {3, 1}, {kPagesOfBlock - 1, 1}, {0, kPagesOfBlock}}};
  for (std::uint64_t block = 0; block + kPagesOfBlock < kPages; block += kPagesOfBlock) {
    for (const Pages& lost : kLost) {
      const std::uint64_t from = (block + lost.first) * kPage;
      const std::uint64_t to = from + lost.count * kPage;
      SCOPED_TRACE(fmt::format("bytes {} to {} of the log are zeros", from, to));
      visit(from, to);
    }
  }
}

TEST(StoreLogGapTest, WithoutFsyncWhatIsBehindAGapIsDropped) {
  for_each_gap([](std::uint64_t from, std::uint64_t to) {
    CrashedStore store(Durability::kAsync);
    store.lose(from, to);
    const auto found = store.bench.try_recover();
    ASSERT_TRUE(found.has_value()) << found.error();
    const Picture written = store.bench.model.picture();
    ASSERT_EQ(found->size(), store.batches_before(from));
    EXPECT_TRUE(std::equal(found->begin(), found->end(), written.begin()));
  });
}

TEST(StoreLogGapTest, WithFsyncAGapIsDamage) {
  for_each_gap([](std::uint64_t from, std::uint64_t to) {
    CrashedStore store(Durability::kFsync);
    store.lose(from, to);
    const auto found = store.bench.try_recover();
    ASSERT_FALSE(found.has_value());
    EXPECT_THAT(found.error(), HasSubstr("is damaged"));
  });
}

TEST(StoreLogGapTest, ALogWithoutAGapIsReadToItsEnd) {
  for (const Durability durability : {Durability::kAsync, Durability::kFsync}) {
    CrashedStore store(durability);
    const auto found = store.bench.try_recover();
    ASSERT_TRUE(found.has_value()) << found.error();
    EXPECT_TRUE(testing::is_same(*found, store.bench.model.picture()));
  }
}

}  // namespace
}  // namespace locksley::daemon
