// A copy in memory of rows of the index. Internal to daemon/store/postgres.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/row_place.h"

namespace locksley::daemon {

// The rows of some kinds, batch by batch. The rows of a batch lie one after the other in one
// string, in any order: a batch that has ended has two or three.
//
// One thread at a time. Nothing blocks or fails.
class IndexCopy {
 public:
  // `kinds`: ascending.
  explicit IndexCopy(std::string kinds) : kinds_(std::move(kinds)) {}

  const std::string& kinds() const { return kinds_; }
  std::size_t batches() const { return batches_.size(); }

  // A row of one of the kinds, which the copy does not have.
  void add(const RowPlace& place, std::string_view value);
  // All rows of a batch.
  void forget(std::int64_t batch) { batches_.erase(batch); }

  // All rows, in the order of EngineReading::scan_batches(). Each batch is freed once it was read.
  static std::unique_ptr<RowCursor> read(std::unique_ptr<IndexCopy> copy);

 private:
  friend class IndexCopyCursor;

  const std::string kinds_;
  std::map<std::int64_t, std::string> batches_;
};

}  // namespace locksley::daemon
