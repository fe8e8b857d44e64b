// A batch, put together from its rows.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/batch_journal.h"
#include "daemon/store/rows/payload_parts.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/rows/step_replay.h"

namespace locksley::daemon {

// A batch as the store holds it.
struct StoredBatch {
  std::uint64_t sequence = 0;
  AcceptedRow accepted;
  ChangesRow changes;  // of default values if there is no such row
  BatchHistory history;
  std::uint64_t payload_bytes = 0;  // of payloads in the store
  // As in StoredRows.
  PayloadParts parts = PayloadParts::kUnknown;
  bool has_changes = false;
  bool has_results_inside = false;
  // Of a batch that has not ended: its payloads, if they are inside its first row.
  std::string payloads_inside;
  // The jobs that have not ended, ascending; empty if the batch has ended.
  std::vector<IndexRange> left;
};

// Puts a batch together from its rows of the index, one row after the other.
//
// On the stack of the function that reads the rows. Nothing blocks.
class BatchAssembly {
 public:
  // `batch`: of default values. It is filled in place, since a start puts a million of them
  // together.
  explicit BatchAssembly(StoredBatch& batch) : batch_(batch) {}

  // Adds the next row, in the order of the keys. The error says which row is damaged.
  std::expected<void, std::string> add(std::string_view key, std::string_view value);
  // Whether the row of the batch's acceptance was added. Without it there is no such batch,
  // whatever other rows were added.
  bool is_accepted() const { return is_accepted_; }
  bool is_over() const { return is_over_; }
  // Called after the last row. Needs: is_accepted().
  std::expected<void, std::string> finish();

 private:
  std::expected<void, std::string> accept(std::string_view value);
  std::expected<void, std::string> change(std::string_view value);
  std::expected<void, std::string> end(std::string_view value);

  StoredBatch& batch_;
  std::optional<StepReplay> steps_;  // of a batch that is not over
  bool is_accepted_ = false;
  bool is_over_ = false;
};

}  // namespace locksley::daemon
