#include "tests/support/rocks_disk.h"

#include <rocksdb/db.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/engine/key.h"

namespace locksley::testing {

using Operation = FaultyFileSystem::Operation;
using Lasting = FaultyFileSystem::Lasting;

RocksDisk::RocksDisk(std::filesystem::path folder, std::uint64_t seed)
    : folder_(std::move(folder)),
      files_(std::make_shared<FaultyFileSystem>(folder_, seed)),
      env_(rocksdb::NewCompositeEnv(files_)) {}
RocksDisk::~RocksDisk() = default;

daemon::OpenEngine RocksDisk::engine() { return daemon::embedded_engine(env_.get()); }

std::vector<RawRow> RocksDisk::rows() const {
  const auto check = [](const rocksdb::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  };
  const std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName, "payloads", "results"};
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::OpenForReadOnly({}, folder_.string(), families, &handles, &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::vector<RawRow> rows;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, handles[i]));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      const std::string_view key = at->key().ToStringView();
      if (i == 0 && key.size() == 1) continue;  // the form of the store
      const std::string_view numbers = key.substr(i == 0 ? 1 : 0);
      rows.push_back({.family = i == 0 ? "index" : names[i],
                      .sequence = daemon::key_number(numbers.substr(0, sizeof(std::uint64_t))),
                      .kind = i == 0 ? key.front() : '\0',
                      .first = i == 0 ? 0 : daemon::key_number(numbers.substr(sizeof(std::uint64_t)))});
    }
    check(at->status());
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) check(db->DestroyColumnFamilyHandle(handle));
  return rows;
}

void RocksDisk::hold_syncs() { files_->hold(Operation::kSync); }
void RocksDisk::release() { files_->release(); }
bool RocksDisk::await_held() { return files_->await_held(); }
std::uint64_t RocksDisk::syncs() const { return files_->count(Operation::kSync); }
void RocksDisk::fail_next_sync() {
  files_->fail(Operation::kSync, 1, rocksdb::IOStatus::IOError("injected"), Lasting::kOnce);
}
void RocksDisk::fail_syncs() {
  files_->fail(Operation::kSync, 1, rocksdb::IOStatus::IOError("injected"), Lasting::kUntilHealed);
}
void RocksDisk::heal() { files_->heal(); }
void RocksDisk::cut_power() { files_->cut_power(); }
void RocksDisk::lose_power() { files_->lose_power(FaultyFileSystem::Tail::kLost); }

std::unique_ptr<StoreDisk> make_store_disk(const std::filesystem::path& folder, std::uint64_t seed) {
  return std::make_unique<RocksDisk>(folder, seed);
}

}  // namespace locksley::testing
