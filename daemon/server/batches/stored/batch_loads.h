// Loads of batches that are over and no longer in memory, by another thread.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/stored/restored_batches.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// If the store is on another machine, which may stop answering, a look-up must not load a batch
// itself: all clients would wait. A caller that must look up a batch calls first_to_load(), which
// names the batch that the look-up would load, has it loaded here, and repeats this until there is
// none. Then the look-up finds what it needs among the batches that were loaded last.
//
// Owned by Batches. The I/O thread only. Nothing blocks. A batch that cannot be read is an outcome
// of its load; nothing else fails.
class BatchLoads {
 public:
  struct Parts {
    asio::io_context& io;
    Slices& slices;
    Registry& registry;
    RestoredBatches& restored;
    Store* store;  // null: there is none, and nothing to load
  };
  explicit BatchLoads(Parts parts) : parts_(parts) {}
  BatchLoads(const BatchLoads&) = delete;
  BatchLoads& operator=(const BatchLoads&) = delete;

  // Whether callers have to load batches here. If not, a look-up loads them itself, in some 20 us.
  bool are_wanted() const;
  // The store's reader loads the retired batch of this sequence number. `on_load` is called once,
  // at once or later, and must not look up a batch by itself. The error says why the batch cannot
  // be read. Without an error the caller asks first_to_load() again, since the batch may have
  // changed meanwhile.
  using Outcome = std::expected<void, std::string>;
  using OnLoad = std::function<void(const Outcome&)>;
  void load(std::uint64_t sequence, OnLoad on_load) LOCKSLEY_REQUIRES(kIoThread);

 private:
  void end(std::uint64_t sequence, const Outcome& outcome) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  // The calls that wait for the loads under way, by sequence.
  std::map<std::uint64_t, std::vector<OnLoad>> waiting_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
