// Stores whose files were damaged, or repaired.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/embedded/clean_end.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/rocks_disk.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"
#include "tests/support/threads.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using testing::FaultyFileSystem;
using testing::is_same;
using testing::open_batch;
using testing::Picture;
using testing::StepMaker;
using testing::StoreBench;
using testing::StoreModel;

// The files of a store, by name.
using Files = std::map<std::string, std::string>;

Files read_files(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "LOCK" || entry.is_directory()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[name] = std::move(bytes).str();
  }
  return files;
}

void write_files(const std::filesystem::path& folder, const Files& files) {
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    std::filesystem::remove_all(entry.path());
  for (const auto& [name, bytes] : files) {
    std::ofstream(folder / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

// A few batches of each kind.
std::vector<StoreWrite> small_writes() {
  StepMaker first(1);
  StepMaker second(2);
  ChangesRow changes;
  changes.is_paused = true;
  changes.weight = 7;
  AcceptBatch range{.sequence = 4, .row = {}, .payloads = nullptr};
  range.row.handler = "echo";
  range.row.jobs = 50;
  range.row.range = {-7, "number {}"};
  return {
      accept_batch(1, 6),
      accept_batch(2, 20),
      first.end_jobs({0, 5}),
      open_batch(3),
      StepMaker::as_last(first.end_jobs({5, 6}, JobStatus::kError)),
      add_jobs(3, 0, {"a", "b", "c"}),
      second.end_jobs({2, 9}),
      range,
      ChangeBatch{.sequence = 2, .changes = changes},
      second.cancel_jobs({9, 12}, "enough"),
      add_jobs(3, 3, {"d", "e"}),
      StepMaker::as_last(StepMaker(4).end_jobs({0, 50})),
  };
}
constexpr std::uint64_t kNextSequence = 5;

// The expected content after each of the writes, the last one last.
std::vector<Picture> small_states() {
  StoreModel model;
  std::vector<Picture> states{model.picture()};
  for (const StoreWrite& write : small_writes()) {
    model.apply(write);
    states.push_back(model.picture());
  }
  return states;
}

// After a clean shutdown; or else after a crash, when most rows are in the log.
Files small_store(bool has_clean_end) {
  StoreBench bench;
  bench.open();
  for (const StoreWrite& write : small_writes()) {
    bench.put(write);
    bench.flush();
  }
  if (has_clean_end) bench.close();
  return read_files(bench.folder.path());
}

// ---- The effects of damage ----

enum class Verdict : std::uint8_t { kRefused, kUnreadable, kRight, kBeginning, kWrong, kEndsTheProcess };
constexpr std::array<std::string_view, 6> kVerdicts{"refused", "unreadable where it is damaged",
                                                    "right",   "only the beginning is there",
                                                    "wrong",   "ends the process"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The content is as expected, except for payloads and results that are reported as unreadable.
bool is_right_as_far_as_it_goes(const Picture& found, const Picture& expected) {
  if (found.size() != expected.size()) return false;
  for (const auto& [sequence, batch] : expected) {
    const auto at = found.find(sequence);
    if (at == found.end()) return false;
    const std::vector<std::string> lines = lines_of(batch);
    const std::vector<std::string> found_lines = lines_of(at->second);
    if (lines.size() != found_lines.size()) return false;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] != found_lines[i] && found_lines[i].find("unreadable") == std::string::npos) return false;
    }
  }
  return true;
}

Verdict judge(const std::filesystem::path& folder, const Files& files) {
  static const std::vector<Picture> states = small_states();
  write_files(folder, files);
  const auto disk = std::make_shared<FaultyFileSystem>(folder, 1);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(disk);
  auto store = Store::open({folder.string(), config::Durability::kFsync, embedded_engine(env.get())},
                           testing::silent_log());
  if (!store) return Verdict::kRefused;
  const auto picture = testing::picture_of(**store);
  disk->cut_power();  // what the store writes at its end is not needed
  if (!picture) return Verdict::kRefused;
  if (std::ranges::find(states, *picture) != states.end() && *picture != states.back())
    return Verdict::kBeginning;
  if (!is_right_as_far_as_it_goes(*picture, states.back()) || (*store)->next_sequence() != kNextSequence) {
    return Verdict::kWrong;
  }
  return *picture == states.back() ? Verdict::kRight : Verdict::kUnreadable;
}

// ---- Flipped bits ----

// One bit in each fifth byte of each file, or with this variable in the environment, as in
// deploy/test --all, in each byte; in files whose content the store does not need, and in the zeros
// ahead of a log (padded_logs.h), in one byte of some 200 times as many. Both distances are odd: no
// field of a file is always passed over, and each of the eight bits has its turn.
constexpr const char* kEveryByteVariable = "LOCKSLEY_EVERY_BYTE";

struct Flip {
  std::string file;
  std::size_t at;
};
std::vector<Flip> all_flips(const Files& files) {
  const std::size_t near = std::getenv(kEveryByteVariable) != nullptr ? 1 : 5;
  const std::size_t far = 201 * near;
  constexpr std::size_t kFirstZeros = 1024;  // bytes; those behind are like them
  std::vector<Flip> flips;
  for (const auto& [name, bytes] : files) {
    const bool is_needed = !name.starts_with("OPTIONS") && name != "IDENTITY";
    const std::size_t last = bytes.find_last_not_of('\0');
    const std::size_t zeros = last == std::string::npos ? 0 : last + 1;
    const std::size_t dense = !is_needed ? 0 : name.ends_with(".log") ? zeros + kFirstZeros : bytes.size();
    for (std::size_t at = 0; at < bytes.size(); at += at < dense ? near : far) flips.push_back({name, at});
  }
  return flips;
}

// Damage may end the process, so other processes examine it: this same test, which its environment
// tells the first flip and the distance between flips. It writes a line for each flip.
constexpr const char* kJobVariable = "LOCKSLEY_DAMAGE_JOB";

struct Job {
  std::filesystem::path folder;  // with the store in "store", and the verdicts in "verdicts-…"
  std::size_t first = 0;
  std::size_t stride = 1;
  std::filesystem::path verdicts() const { return folder / fmt::format("verdicts-{}", first); }
};

void do_job(const char* job_text) {
  Job job;
  std::istringstream(job_text) >> job.first >> job.stride >> job.folder;
  const Files files = read_files(job.folder / "store");
  const std::vector<Flip> flips = all_flips(files);
  const testing::TemporaryFolder folder;
  std::ofstream verdicts(job.verdicts());
  for (std::size_t i = job.first; i < flips.size(); i += job.stride) {
    Files damaged = files;
    char& byte = damaged[flips[i].file][flips[i].at];
    byte = static_cast<char>(byte ^ (1 << (flips[i].at % 8)));
    verdicts << static_cast<int>(judge(folder.path(), damaged)) << std::endl;
  }
}

// The verdicts of such a process, as far as it came.
std::vector<Verdict> have_it_done(const Job& job) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string filter = fmt::format("--gtest_filter={}.{}", test->test_suite_name(), test->name());
  std::string variable = fmt::format("{}={} {} {}", kJobVariable, job.first, job.stride, job.folder.string());
  std::string program = "/proc/self/exe";
  char* arguments[] = {program.data(), filter.data(), nullptr};
  std::vector<char*> environment{variable.data()};
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::vector<Verdict> verdicts;
  std::ifstream file(job.verdicts());
  for (int verdict = 0; file >> verdict;) verdicts.push_back(static_cast<Verdict>(verdict));
  return verdicts;
}

using Tally = std::map<Verdict, std::vector<Flip>>;

Tally flip_all(const Files& files) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "store");
  write_files(folder.path() / "store", files);
  const std::vector<Flip> flips = all_flips(files);
  std::mutex mutex;
  Tally tally;
  constexpr std::size_t kProcesses = 2;
  testing::run_together(kProcesses, [&](std::size_t process) {
    for (std::size_t at = process; at < flips.size();) {
      std::vector<Verdict> verdicts = have_it_done({folder.path(), at, kProcesses});
      const bool was_done = at + verdicts.size() * kProcesses >= flips.size();
      if (!was_done) verdicts.push_back(Verdict::kEndsTheProcess);
      const std::lock_guard lock(mutex);
      for (const Verdict verdict : verdicts) {
        tally[verdict].push_back(flips[at]);
        at += kProcesses;
      }
    }
  });
  return tally;
}

// The number of each verdict for each file, and where.
std::string describe(const std::vector<Flip>& flips) {
  std::map<std::string, std::vector<std::size_t>> places;
  for (const Flip& flip : flips) places[flip.file].push_back(flip.at);
  std::string text;
  for (auto& [file, at] : places) {
    std::ranges::sort(at);
    text += fmt::format(" {} in {}", at.size(), file);
    if (at.size() <= 20) text += fmt::format(" (bytes {})", fmt::join(at, ", "));
  }
  return text;
}
void print(const Tally& tally) {
  for (const auto& [verdict, flips] : tally) {
    fmt::print("{}:{}\n", kVerdicts[static_cast<std::size_t>(verdict)], describe(flips));
  }
  std::fflush(stdout);
}

TEST(StoreDamageTest, NoBitOfACleanlyClosedStoreFlipsUnnoticed) {
  if (const char* job = std::getenv(kJobVariable)) return do_job(job);
  Tally tally = flip_all(small_store(true));
  print(tally);
  EXPECT_EQ(describe(tally[Verdict::kWrong]), "");
  EXPECT_EQ(describe(tally[Verdict::kBeginning]), "");
  // An assertion of RocksDB, which uses a table's properties before it checks their checksum.
  for (const Flip& flip : tally[Verdict::kEndsTheProcess])
    EXPECT_TRUE(flip.file.ends_with(".sst")) << flip.file;
}

// RocksDB takes some damage in its log for a record that was being written when the power failed.
TEST(StoreDamageTest, ABitThatFlipsInTheLogCostsWhatIsBehindItAtMost) {
  if (const char* job = std::getenv(kJobVariable)) return do_job(job);
  Tally tally = flip_all(small_store(false));
  print(tally);
  EXPECT_EQ(describe(tally[Verdict::kWrong]), "");
  EXPECT_EQ(describe(tally[Verdict::kEndsTheProcess]), "");
  for (const Flip& flip : tally[Verdict::kBeginning]) EXPECT_TRUE(flip.file.ends_with(".log")) << flip.file;
}

TEST(StoreDamageTest, NoFileIsMissedUnnoticed) {
  for (const bool has_clean_end : {true, false}) {
    const Files whole = small_store(has_clean_end);
    const testing::TemporaryFolder folder;
    for (const auto& [name, bytes] : whole) {
      // After a crash RocksDB does not know which logs existed. After a clean shutdown they are
      // empty.
      if (!has_clean_end && name.ends_with(".log")) continue;
      Files files = whole;
      files.erase(name);
      const Verdict verdict = judge(folder.path(), files);
      EXPECT_TRUE(verdict == Verdict::kRefused || verdict == Verdict::kRight)
          << "without " << name << " of " << bytes.size()
          << " bytes: " << kVerdicts[static_cast<std::size_t>(verdict)];
    }
  }
}

TEST(StoreDamageTest, AManifestThatLacksItsEndIsRefusedAfterACleanEnd) {
  const Files whole = small_store(true);
  const testing::TemporaryFolder folder;
  for (const auto& [name, bytes] : whole) {
    if (!name.starts_with("MANIFEST-")) continue;
    for (std::size_t size = 0; size < bytes.size(); size += 7) {
      Files files = whole;
      files[name].resize(size);
      EXPECT_EQ(judge(folder.path(), files), Verdict::kRefused) << size << " bytes of " << bytes.size();
    }
  }
}

TEST(StoreDamageTest, TheNoteOfACleanEndIsThereAfterACleanEndAlone) {
  EXPECT_TRUE(small_store(true).contains(CleanEndNote::kFile));
  EXPECT_FALSE(small_store(false).contains(CleanEndNote::kFile));
  StoreBench bench;
  for (int i = 0; i < 3; ++i) {
    bench.open();
    EXPECT_FALSE(read_files(bench.folder.path()).contains(CleanEndNote::kFile));
    bench.close();
    EXPECT_TRUE(read_files(bench.folder.path()).contains(CleanEndNote::kFile));
  }
}

TEST(StoreRepairTest, BringsBackWhatTheManifestHasLost) {
  for (const bool damages_the_note : {false, true}) {
    Files files = small_store(true);
    for (auto& [name, bytes] : files) {
      if (damages_the_note ? name == CleanEndNote::kFile : name.starts_with("MANIFEST-")) {
        bytes.resize(bytes.size() / 2);
      }
    }
    const testing::TemporaryFolder folder;
    write_files(folder.path(), files);
    ASSERT_FALSE(
        Store::open({.path = folder.path().string(), .engine = embedded_engine()}, testing::silent_log()));
    const auto repaired = repair_embedded({.path = folder.path().string(), .log = nullptr});
    ASSERT_TRUE(repaired.has_value()) << repaired.error().what;
    auto store =
        Store::open({.path = folder.path().string(), .engine = embedded_engine()}, testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error().what;
    const auto picture = testing::picture_of(**store);
    ASSERT_TRUE(picture.has_value()) << picture.error();
    EXPECT_TRUE(is_same(*picture, small_states().back()));
  }
}

TEST(StoreRepairTest, OfAStoreThatIsNotDamagedChangesNothing) {
  for (const bool has_clean_end : {true, false}) {
    const testing::TemporaryFolder folder;
    write_files(folder.path(), small_store(has_clean_end));
    const auto repaired = repair_embedded({.path = folder.path().string(), .log = nullptr});
    ASSERT_TRUE(repaired.has_value()) << repaired.error().what;
    auto store =
        Store::open({.path = folder.path().string(), .engine = embedded_engine()}, testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error().what;
    const auto picture = testing::picture_of(**store);
    ASSERT_TRUE(picture.has_value()) << picture.error();
    EXPECT_TRUE(is_same(*picture, small_states().back()))
        << (has_clean_end ? "after a clean end" : "after a crash");
  }
}

}  // namespace
}  // namespace locksley::daemon
