// Results in the order of their jobs, although they come in the order of completion: held in
// bounded memory, and then in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// Puts results that arrive in the order of completion into the order of the jobs. Results that
// cannot be shown yet are held: up to `memory_bytes` of outputs in memory, the others in a
// temporary file without a name. Besides its output, each job from the next one to be shown up to
// the last that has arrived takes some 90 bytes.
//
// Used by one thread. Blocks only for the temporary file. If the file cannot be created or written,
// the outputs stay in memory beyond the bound.
class OrderedOutputs {
 public:
  using Show = std::function<void(const client::ResultRow&)>;

  OrderedOutputs(std::size_t memory_bytes, Show show) : memory_bytes_(memory_bytes), show_(std::move(show)) {}

  // Takes the result of a job, and shows all results up to the next gap. Each index comes once.
  void add(const client::ResultRow& row);
  // Shows the remaining results in order, in spite of gaps: a cancelled batch has some.
  void finish();

  std::size_t held() const { return held_; }                       // jobs not yet shown
  std::size_t held_in_memory_bytes() const { return in_memory_; }  // for tests

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
