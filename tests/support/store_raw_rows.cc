// The rows of a store as they lie in RocksDB.
#include <fmt/format.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/codec.h"
#include "daemon/store/rows.h"
#include "tests/support/store_model.h"

namespace locksley::testing {

std::vector<RawRow> raw_rows(const std::filesystem::path& folder) {
  const auto check = [](const rocksdb::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  };
  const std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName, "payloads", "results"};
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::OpenForReadOnly({}, folder.string(), families, &handles, &opened));
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

std::size_t count_rows(const std::vector<RawRow>& rows, std::uint64_t sequence) {
  return static_cast<std::size_t>(std::ranges::count(rows, sequence, &RawRow::sequence));
}

std::size_t count_rows(const std::vector<RawRow>& rows, std::uint64_t sequence, std::string_view family) {
  return static_cast<std::size_t>(std::ranges::count_if(
      rows, [&](const RawRow& row) { return row.sequence == sequence && row.family == family; }));
}

std::vector<std::string> rows_of_nothing(const std::vector<RawRow>& rows, const StoreModel& model) {
  std::vector<std::string> findings;
  for (const RawRow& row : rows) {
    const auto found = model.batches.find(row.sequence);
    if (found == model.batches.end()) {
      findings.push_back(fmt::format("a row of {} '{}' of batch {}, which is not there", row.family,
                                     row.kind == 0 ? '-' : row.kind, row.sequence));
      continue;
    }
    const StoreModel::Batch& batch = found->second;
    if (row.family == "payloads" && batch.payloads.empty()) {
      findings.push_back(fmt::format("payloads of batch {}, which has none", row.sequence));
    }
    if (row.family == "payloads" && row.first >= batch.jobs()) {
      findings.push_back(fmt::format("payloads of batch {} from {} on, and it has {} jobs", row.sequence,
                                     row.first, batch.jobs()));
    }
    if (row.kind == daemon::kFailedKey && (!batch.is_over() || batch.failed.empty())) {
      findings.push_back(fmt::format("failed jobs of batch {}, which has none or goes on", row.sequence));
    }
    if (row.kind == daemon::kStepKey && batch.is_over()) {
      findings.push_back(fmt::format("a step of batch {}, which is over", row.sequence));
    }
  }
  return findings;
}

}  // namespace locksley::testing
