// What a store should hold, what one does hold, and a form of both that can be compared.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/batch_journal.h"
#include "core/batch/result_log.h"
#include "daemon/store/store.h"

namespace locksley::testing {

// One row of results with its own bytes.
struct StoredRow {
  std::uint64_t index;
  JobStatus status;
  std::string output;
  friend bool operator==(const StoredRow&, const StoredRow&) = default;
};

// One text a batch, by sequence: all that can be read of it.
using Picture = std::map<std::uint64_t, std::string>;
// Whether they are the same, and where they differ.
::testing::AssertionResult is_same(const Picture& found, const Picture& expected);

// The content of a store after writes, by a simple account of the effect of each write.
struct StoreModel {
  struct Batch {
    daemon::AcceptedRow accepted;
    std::optional<daemon::ChangesRow> changes;
    std::vector<std::string> payloads;
    bool has_payloads_inside = false;  // the row of its acceptance
    std::set<std::uint64_t> ended;
    std::set<std::uint64_t> failed;                       // of these
    std::map<std::uint64_t, AttemptCounts> job_attempts;  // by job
    std::vector<StoredRow> rows;
    std::uint64_t steps = 0;
    BatchStep last;  // except its rows
    bool is_over() const { return last.finished_at != 0; }
    std::uint64_t jobs() const;
    bool is_closed() const;
  };
  std::map<std::uint64_t, Batch> batches;

  void apply(const daemon::StoreWrite& write);
  Picture picture() const;
};

// All of a store that is open: recovers it, and reads every result and every payload. What cannot
// be read is said in the picture; the error is recover()'s.
std::expected<Picture, std::string> picture_of(daemon::Store& store);

// A row of a store that is not open, as it is on the disk (StoreDisk::rows()).
struct RawRow {
  std::string family;
  std::uint64_t sequence;
  char kind;            // of the index: its letter; else 0
  std::uint64_t first;  // of payloads: the index of the first
};
// How many of one batch.
std::size_t count_rows(const std::vector<RawRow>& rows, std::uint64_t sequence);
std::size_t count_rows(const std::vector<RawRow>& rows, std::uint64_t sequence, std::string_view family);
// Rows that no batch of the model accounts for, worded.
std::vector<std::string> rows_of_nothing(const std::vector<RawRow>& rows, const StoreModel& model);

// Rows of results as workers write them.
ResultLog::Rows append_rows(ResultLog& log, const std::vector<StoredRow>& rows);

std::shared_ptr<const proto::ArgumentList> payloads_of(const std::vector<std::string>& payloads);

}  // namespace locksley::testing
