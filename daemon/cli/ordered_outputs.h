#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/client/values.h"

namespace locksley::cli {

// Puts results that come in the order of completion into the order of the jobs. What cannot be shown yet is
// held: in memory up to `memory_bytes` of outputs, beyond that in a temporary file without a name, and some
// 40 bytes a job in memory whatever happens.
//
// Used by one thread. Blocks for the temporary file alone. If that cannot be made or written, outputs stay in
// memory: order is kept, the bound is not.
class OrderedOutputs {
 public:
  using Show = std::function<void(const client::ResultRow&)>;

  OrderedOutputs(std::size_t memory_bytes, Show show) : memory_bytes_(memory_bytes), show_(std::move(show)) {}

  // Takes a job's end; shows it and those behind it as far as there is no gap. An index comes once.
  void add(const client::ResultRow& row);
  // Shows what is left in order, gaps or not: a cancelled batch has some.
  void finish();

  std::size_t held() const { return held_; }  // jobs not yet shown
  std::size_t held_in_memory_bytes() const { return in_memory_; }

 private:
  struct Held {
    bool present = false;
    bool in_file = false;
    std::string status;
    std::string output;        // unless in_file
    std::uint64_t offset = 0;  // in the file
    std::size_t length = 0;
  };
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void hold(Held& held, const client::ResultRow& row);
  void show(std::uint64_t index, Held& held);
  bool write_to_file(Held& held, std::string_view output);

  const std::size_t memory_bytes_;
  const Show show_;
  std::uint64_t next_ = 0;   // the index that is shown next
  std::deque<Held> window_;  // window_[i] is of index next_ + i
  std::size_t held_ = 0;
  std::size_t in_memory_ = 0;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t file_end_ = 0;
  std::size_t in_file_ = 0;  // outputs in the file that were not shown yet
};

}  // namespace locksley::cli
