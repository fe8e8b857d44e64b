#include "tests/support/memory_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>

#include "daemon/store/engine/key.h"
#include "daemon/store/engine/reading_gate.h"

namespace locksley::testing {
namespace {

using daemon::EngineDone;
using daemon::EngineError;
using daemon::Table;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr const char* kCopy = "rows";

EngineDone failed(std::string what) {
  return std::unexpected(EngineError{EngineError::Kind::kFailed, std::move(what)});
}

std::string new_id() {
  static std::atomic<int> last = 0;
  return fmt::format("memory disk {}", ++last);
}

class MemoryGroup final : public daemon::Engine::Group {
 public:
  void put(Table table, std::string_view key, std::string_view value) override {
    add({MemoryDisk::Change::Kind::kPut, table, std::string(key), std::string(value)});
  }
  void erase(Table table, std::string_view key) override {
    add({MemoryDisk::Change::Kind::kErase, table, std::string(key), {}});
  }
  void erase_range(Table table, std::string_view low, std::string_view high, Rows) override {
    add({MemoryDisk::Change::Kind::kEraseRange, table, std::string(low), std::string(high)});
  }
  std::size_t size_bytes() const override { return bytes_; }
  bool empty() const override { return changes_.empty(); }
  void clear() override {
    changes_.clear();
    bytes_ = 0;
  }
  const std::vector<MemoryDisk::Change>& changes() const { return changes_; }

 private:
  void add(MemoryDisk::Change change) {
    bytes_ += change.key.size() + change.value.size();
    changes_.push_back(std::move(change));
  }

  std::vector<MemoryDisk::Change> changes_;
  std::size_t bytes_ = 0;
};

class MemoryCursor final : public daemon::RowCursor {
 public:
  MemoryCursor(std::shared_ptr<const MemoryDisk::Tables> tables, const daemon::RowRange& range)
      : tables_(std::move(tables)), rows_((*tables_)[static_cast<std::size_t>(range.table)]) {
    at_ = rows_.lower_bound(range.low);
    end_ = range.high.empty() ? rows_.end() : rows_.lower_bound(range.high);
    if (range.from_at_most.empty() || range.from_at_most < range.low) return;
    auto after = rows_.upper_bound(range.from_at_most);
    if (!range.high.empty() && range.high <= range.from_at_most) after = end_;
    if (after != at_) at_ = std::prev(after);
  }
  bool is_valid() const override { return at_ != end_; }
  void next() override { ++at_; }
  std::string_view key() const override { return at_->first; }
  std::string_view value() const override { return at_->second; }
  EngineDone status() const override { return {}; }

 private:
  const std::shared_ptr<const MemoryDisk::Tables> tables_;
  const MemoryDisk::Rows& rows_;
  MemoryDisk::Rows::const_iterator at_;
  MemoryDisk::Rows::const_iterator end_;
};

// As the embedded engine: after a failure it is read only, until a reopen() has written everything
// anew.
class MemoryEngine final : public daemon::Engine {
 public:
  MemoryEngine(MemoryDisk& disk, std::string place) : disk_(disk), place_(std::move(place)) { gate_.open(); }
  ~MemoryEngine() override {
    gate_.close();
    static_cast<void>(disk_.write_anew());
    disk_.give_back();
  }

  std::unique_ptr<Group> new_group() override { return std::make_unique<MemoryGroup>(); }
  EngineDone commit(Group& group, Sync sync) override {
    EngineDone done = write_ahead(group);
    return done && sync == Sync::kSynced ? disk_.sync() : done;
  }
  EngineDone write_ahead(Group& group) override {
    EngineDone done = disk_.apply(static_cast<MemoryGroup&>(group).changes());
    group.clear();
    return done;
  }
  std::size_t group_bytes() const override { return disk_.group_bytes; }
  std::size_t write_ahead_bytes() const override { return disk_.write_ahead_bytes; }
  EngineDone sync() override { return disk_.sync(); }
  EngineDone reopen() override {
    gate_.close();
    EngineDone done = disk_.write_anew();
    gate_.open();
    return done;
  }
  EngineDone check_room(std::uint64_t bytes) override {
    if (bytes <= disk_.room) return {};
    return std::unexpected(daemon::EngineError{daemon::EngineError::Kind::kFull, "no room"});
  }
  bool has_last_room(std::uint64_t bytes) override { return bytes <= disk_.room; }
  void use_reserve() override { disk_.room += std::exchange(disk_.reserve, 0); }
  EngineDone reclaim(std::uint64_t first, std::uint64_t last) override {
    disk_.reclaimed.emplace_back(first, last);
    return {};
  }
  const std::string& place() const override { return place_; }
  const std::string& id() const override { return disk_.id(); }
  bool is_on_network() const override { return disk_.is_on_network; }
  Usage usage() const override {
    Usage usage;
    for (const MemoryDisk::Rows& rows : *disk_.tables()) {
      for (const auto& [key, value] : rows) usage.bytes += key.size() + value.size();
    }
    return usage;
  }
  void start_upkeep() override {}
  void stop_upkeep() override {}
  void set_live_bytes(std::uint64_t) override {}
  std::string_view remedy(Damage) const override {
    return "Restore it, or set store.path to another folder to begin anew";
  }
  std::string_view why_no_copies() const override { return {}; }
  EngineDone copy_to(const std::string& folder, const std::stop_token&) override {
    return disk_.copy_to(folder);
  }

 protected:
  bool begin_reading(daemon::ReadingWait wait) override { return gate_.enter(wait); }
  void end_reading() override { gate_.leave(); }
  std::expected<bool, EngineError> get(Table table, std::string_view key, std::string& value) override {
    ++disk_.readings;
    const auto tables = disk_.tables();
    const MemoryDisk::Rows& rows = (*tables)[static_cast<std::size_t>(table)];
    const auto found = rows.find(key);
    if (found == rows.end()) return false;
    value = found->second;
    return true;
  }
  std::expected<daemon::RowValues, EngineError> get_within(Table table, std::span<const daemon::Key> keys,
                                                           std::chrono::milliseconds patience,
                                                           daemon::ReadingConnection connection) override {
    if (disk_.has_no_connection && connection == daemon::ReadingConnection::kOpen) {
      ++disk_.without_connection;
      return std::unexpected(EngineError{EngineError::Kind::kNotOpen, "no connection is open"});
    }
    if (disk_.has_no_reply) {
      ++disk_.without_reply;
      return std::unexpected(EngineError{EngineError::Kind::kAway, "the database does not reply"});
    }
    if (auto passed = disk_.index.pass(SlowServer::Kind::kReading, patience, {}); !passed)
      return std::unexpected(passed.error());
    return Engine::get_within(table, keys, patience, connection);
  }
  std::expected<std::optional<daemon::FoundRow>, EngineError> first_row(
      const daemon::RowRange& range) override {
    return first_row_within(range, std::chrono::hours(1), {});
  }
  std::expected<std::optional<daemon::FoundRow>, EngineError> first_row_within(
      const daemon::RowRange& range, std::chrono::milliseconds patience,
      const std::stop_token& stop) override {
    using Kind = SlowServer::Kind;
    // Reachability asks short questions.
    const Kind kind = range.from_at_most.empty() ? Kind::kQuestion : Kind::kReading;
    if (range.table == Table::kPayloads) {
      if (auto passed = disk_.server.pass(kind, patience, stop); !passed)
        return std::unexpected(passed.error());
    }
    return Engine::first_row(range);
  }
  std::unique_ptr<daemon::RowCursor> scan(const daemon::RowRange& range) override {
    ++disk_.readings;
    return std::make_unique<MemoryCursor>(disk_.tables(), range);
  }

 private:
  MemoryDisk& disk_;
  const std::string place_;
  daemon::ReadingGate gate_;
};

}  // namespace

// The file has for each row a line of text with the number of its table and the sizes of its key
// and its value, and after it the key and the value.
MemoryDisk::MemoryDisk(const std::filesystem::path& folder) : id_(new_id()) {
  std::ifstream file(folder / kCopy, std::ios::binary);
  std::size_t table = 0, key = 0, value = 0;
  while (file >> table >> key >> value) {
    file.get();  // the end of the line
    std::string bytes(key + value, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    synced_.at(table)[bytes.substr(0, key)] = bytes.substr(key);
  }
  *written_ = synced_;
}

EngineDone MemoryDisk::copy_to(const std::filesystem::path& folder) const {
  const auto tables = this->tables();
  std::error_code error;
  if (!std::filesystem::create_directory(folder, error)) return failed("cannot make " + folder.string());
  std::ofstream file(folder / kCopy, std::ios::binary);
  for (std::size_t table = 0; table < tables->size(); ++table) {
    for (const auto& [key, value] : (*tables)[table]) {
      file << table << ' ' << key.size() << ' ' << value.size() << '\n' << key << value;
    }
  }
  file.close();
  return file ? EngineDone() : failed("cannot write " + folder.string());
}

daemon::OpenEngine MemoryDisk::engine() {
  return [this](const daemon::EngineOptions& options)
             -> std::expected<std::unique_ptr<daemon::Engine>, daemon::StoreRefusal> {
    if (!take()) {
      return std::unexpected(
          daemon::StoreRefusal{fmt::format("the store {} is in use by another daemon", options.path)});
    }
    return std::make_unique<MemoryEngine>(*this, options.path);
  };
}

std::vector<RawRow> MemoryDisk::rows() const {
  std::vector<RawRow> found;
  const auto tables = this->tables();
  constexpr std::array kNames{"index", "payloads", "results"};
  for (std::size_t table = 0; table < tables->size(); ++table) {
    const std::size_t kind = table == 0 ? 1 : 0;  // bytes of it
    for (const auto& [key, value] : (*tables)[table]) {
      if (key.size() == 1) continue;  // a row of the store itself
      const std::string_view numbers = std::string_view(key).substr(kind);
      found.push_back({.family = kNames[table],
                       .sequence = daemon::key_number(numbers.substr(0, sizeof(std::uint64_t))),
                       .kind = kind == 0 ? '\0' : key.front(),
                       .first = kind != 0 ? 0 : daemon::key_number(numbers.substr(sizeof(std::uint64_t)))});
    }
  }
  return found;
}

void MemoryDisk::hold_syncs() {
  const MutexLock lock(mutex_);
  holds_ = true;
}

void MemoryDisk::release() {
  const MutexLock lock(mutex_);
  holds_ = false;
  changed_.notify_all();
}

void MemoryDisk::release_one() {
  const MutexLock lock(mutex_);
  ++released_;
  is_held_ = false;
  changed_.notify_all();
}

bool MemoryDisk::await_held() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const MutexLock lock(mutex_);
  while (!is_held_ && changed_.wait_until(mutex_, deadline) == std::cv_status::no_timeout) {
  }
  return is_held_;
}

std::uint64_t MemoryDisk::syncs() const {
  const MutexLock lock(mutex_);
  return syncs_;
}

void MemoryDisk::fail_next_sync() {
  const MutexLock lock(mutex_);
  fault_ = Fault::kNext;
}

void MemoryDisk::fail_syncs() {
  const MutexLock lock(mutex_);
  fault_ = Fault::kAll;
}

void MemoryDisk::heal() {
  const MutexLock lock(mutex_);
  fault_ = Fault::kNone;
}

void MemoryDisk::cut_power() {
  const MutexLock lock(mutex_);
  has_power_ = false;
}

void MemoryDisk::lose_power() {
  const MutexLock lock(mutex_);
  written_ = std::make_shared<Tables>(synced_);
  unsynced_.clear();
  has_power_ = true;
  fault_ = Fault::kNone;
}

bool MemoryDisk::take() {
  const MutexLock lock(mutex_);
  return !std::exchange(is_taken_, true);
}

void MemoryDisk::give_back() {
  const MutexLock lock(mutex_);
  is_taken_ = false;
}

std::shared_ptr<const MemoryDisk::Tables> MemoryDisk::tables() const {
  const MutexLock lock(mutex_);
  // Released under the mutex, so that apply() does not change what is being read.
  return {written_.get(), [this, tables = written_](const Tables*) mutable {
            const MutexLock again(mutex_);
            tables.reset();
          }};
}

void MemoryDisk::apply(const Change& change, Tables& tables) {
  Rows& rows = tables[static_cast<std::size_t>(change.table)];
  switch (change.kind) {
    case Change::Kind::kPut:
      rows[change.key] = change.value;
      break;
    case Change::Kind::kErase:
      rows.erase(change.key);
      break;
    case Change::Kind::kEraseRange:
      rows.erase(rows.lower_bound(change.key), rows.lower_bound(change.value));
      break;
  }
}

EngineDone MemoryDisk::apply(const std::vector<Change>& changes) {
  const MutexLock lock(mutex_);
  if (!has_power_) return failed("no power");
  // A reader keeps the tables that it has.
  if (written_.use_count() != 1) written_ = std::make_shared<Tables>(*written_);
  for (const Change& change : changes) apply(change, *written_);
  unsynced_.insert(unsynced_.end(), changes.begin(), changes.end());
  return {};
}

EngineDone MemoryDisk::sync() {
  const MutexLock lock(mutex_);
  return sync_held();
}

EngineDone MemoryDisk::sync_held() {
  ++syncs_;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (holds_ && released_ == 0) {
    is_held_ = true;
    changed_.notify_all();
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return failed("held for too long");
  }
  is_held_ = false;
  released_ -= std::min<std::uint64_t>(released_, 1);
  if (!has_power_) return failed("no power");
  if (takes_fault()) {
    // The changes can be read until the power goes, though a later sync succeeds.
    unsynced_.clear();
    return failed("injected");
  }
  for (const Change& change : std::exchange(unsynced_, {})) apply(change, synced_);
  return {};
}

EngineDone MemoryDisk::write_anew() {
  const MutexLock lock(mutex_);
  if (!has_power_) return failed("no power");
  if (takes_fault()) return failed("injected");
  synced_ = *written_;
  unsynced_.clear();
  return {};
}

std::unique_ptr<StoreDisk> make_store_disk(const std::filesystem::path& folder, std::uint64_t) {
  return std::make_unique<MemoryDisk>(folder);
}

}  // namespace locksley::testing
// Length: one engine, with its disk and all that a test may do to it.
