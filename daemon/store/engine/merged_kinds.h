// A cursor over rows of several kinds, batch by batch. One thread, that of the reading.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// Rows of several kinds in the order of their batches, and those of a batch in the order of their
// kinds (EngineReading::scan_batches()). The rules are those of RowCursor.
class MergedKinds final : public RowCursor {
 public:
  // Each cursor is over all rows of one kind of the index whose keys contain batches. The cursors
  // ascend by kind; there is at least one.
  explicit MergedKinds(std::vector<std::unique_ptr<RowCursor>> kinds);

  bool is_valid() const override { return status_.has_value() && batches_[at_] != kEnd; }
  void next() override;
  std::string_view key() const override { return kinds_[at_]->key(); }
  std::string_view value() const override { return kinds_[at_]->value(); }
  EngineDone status() const override { return status_; }

 private:
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};

  void look_at(std::size_t kind);
  void choose();

  const std::vector<std::unique_ptr<RowCursor>> kinds_;
  std::vector<std::uint64_t> batches_;  // of the row at which each cursor is; kEnd: it is at no row
  std::size_t at_ = 0;                  // the cursor with the next row
  EngineDone status_;                   // the first error of a cursor
};

}  // namespace locksley::daemon
