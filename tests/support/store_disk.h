// What the store's tests need of an engine's disk, whichever engine it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/store/engine/engine.h"
#include "tests/support/store_model.h"

namespace locksley::testing {

// A disk that keeps what an engine writes, that fails when it is told to, and that loses power. Any
// thread may call anything, except rows() and lose_power(), for which the store must not be open.
class StoreDisk {
 public:
  virtual ~StoreDisk() = default;
  virtual daemon::OpenEngine engine() = 0;
  // The name of the store in this folder in messages.
  virtual std::string place(const std::filesystem::path& folder) const { return folder.string(); }
  // The key of the configuration that says where it is: what a message advises to set.
  virtual std::string key_of_place() const { return "store.path"; }
  // All rows of batches, as they lie there.
  virtual std::vector<RawRow> rows() const = 0;

  // Syncs wait until release(), for 30 s at most, and then fail.
  virtual void hold_syncs() = 0;
  virtual void release() = 0;
  // Returns true once a sync waits; false if none waits within 30 s.
  virtual bool await_held() = 0;
  // How many syncs there were, failed ones included.
  virtual std::uint64_t syncs() const = 0;
  // The next sync fails, or all do until heal(). Bytes whose sync fails are gone after a loss of
  // power.
  virtual void fail_next_sync() = 0;
  virtual void fail_syncs() = 0;
  virtual void heal() = 0;

  // Whether all that was not synced is gone after a loss of power; else some of it may be there.
  virtual bool loses_all_unsynced() const { return true; }
  // From now on nothing can be changed.
  virtual void cut_power() = 0;
  // Drops the writes that were not synced, as far as loses_all_unsynced() says; then there is power
  // again, and no fault.
  virtual void lose_power() = 0;
};

// The disk of the program's engine: of the three files that define this, each test program has one.
std::unique_ptr<StoreDisk> make_store_disk(const std::filesystem::path& folder, std::uint64_t seed);

}  // namespace locksley::testing
