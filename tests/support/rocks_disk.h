// The disk of the embedded engine: for tests that know its files.
#pragma once

#include <rocksdb/env.h>

#include <filesystem>
#include <memory>

#include "tests/support/faulty_file_system.h"
#include "tests/support/store_disk.h"
#include "tests/support/store_fixture.h"

namespace locksley::testing {

// A StoreDisk of files, each operation of which can fail.
class RocksDisk final : public StoreDisk {
 public:
  RocksDisk(std::filesystem::path folder, std::uint64_t seed);
  ~RocksDisk() override;

  FaultyFileSystem& files() { return *files_; }

  daemon::OpenEngine engine() override;
  std::vector<RawRow> rows() const override;
  void hold_syncs() override;
  void release() override;
  bool await_held() override;
  std::uint64_t syncs() const override;
  void fail_next_sync() override;
  void fail_syncs() override;
  void heal() override;
  void cut_power() override;
  void lose_power() override;

 private:
  const std::filesystem::path folder_;
  const std::shared_ptr<FaultyFileSystem> files_;
  const std::unique_ptr<rocksdb::Env> env_;
};

// The files of a bench in a program whose engine is the embedded one.
inline FaultyFileSystem& files_of(const StoreBench& bench) {
  return dynamic_cast<RocksDisk&>(*bench.disk).files();
}

}  // namespace locksley::testing
