#include "tests/fuzz/daemon_in_process.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>

#include <utility>

#include "daemon/handlers/builtins.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "tests/fuzz/target.h"

namespace locksley::fuzz {
namespace {

constexpr std::uint32_t kWorkers = 2;

// Lines are made, and then thrown away.
std::shared_ptr<spdlog::logger> make_log() {
  auto log = std::make_shared<spdlog::logger>("fuzz", std::make_shared<spdlog::sinks::null_sink_mt>());
  log->set_level(spdlog::level::debug);
  return log;
}

// The store syncs a log while other threads may append to it (SyncWAL()), which RocksDB asks a
// file's leave for. Files in memory can bear it (a lock each), but do not say so.
class MemoryDisk final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char* Name() const override { return "MemoryDisk"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    auto status = FileSystemWrapper::NewWritableFile(path, options, result, context);
    if (status.ok()) *result = std::make_unique<MemoryFile>(std::move(*result));
    return status;
  }

 private:
  class MemoryFile final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;
    bool IsSyncThreadSafe() const override { return true; }
  };
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_disk() {
  const std::unique_ptr<rocksdb::Env> memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  return rocksdb::NewCompositeEnv(std::make_shared<MemoryDisk>(memory->GetFileSystem()));
}

DaemonInProcess::DaemonInProcess(config::Config config, rocksdb::Env* disk)
    : builtins_(daemon::register_builtins()),
      lane_("cpu", FairRing::Options{.parallelism = kWorkers}),
      pool_(lane_) {
  const ThreadRoleScope io_thread(daemon::kIoThread);
  for (const auto& handler : builtins_)
    handlers_.add({.handler = *handler, .lane = lane_, .kind = daemon::HandlerKind::kBuiltin});
  const auto log = make_log();
  if (disk != nullptr) {
    auto opened =
        daemon::Store::open({"/store", config::Durability::kFsync, daemon::embedded_engine(disk)}, log);
    if (!opened) fail("the store opens", opened.error().what);
    store_ = std::move(*opened);
  }
  config.listen.port = 0;
  server_ = std::make_unique<daemon::Server>(daemon::Server::Parts{.io = io_,
                                                                   .tenants = tenants_,
                                                                   .handlers = handlers_,
                                                                   .lanes = {&lane_},
                                                                   .pool = pool_,
                                                                   .store = store_.get(),
                                                                   .authenticator = authenticator_,
                                                                   .log = log,
                                                                   .version = "fuzz"},
                                             std::move(config));
  if (const auto restored = server_->batches().restore_all(); !restored) {
    fail("what is in the store can be restored", restored.error().what);
  }
  if (const auto endpoint = server_->listen(); !endpoint) fail("there is a port", endpoint.error());
  pool_.start(kWorkers);
}

DaemonInProcess::~DaemonInProcess() = default;

void DaemonInProcess::run_for(std::chrono::milliseconds most) {
  const ThreadRoleScope io_thread(daemon::kIoThread);
  io_.restart();
  if (io_.poll() == 0 && most.count() > 0) io_.run_one_for(most);
}

void DaemonInProcess::run_until(const std::function<bool()>& is_so, const char* claim) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline) fail(claim, "not after 20 s");
    run_for(std::chrono::milliseconds(1));
  }
}

void DaemonInProcess::drain(std::function<void()> on_idle) {
  const ThreadRoleScope io_thread(daemon::kIoThread);
  server_->drain(std::move(on_idle));
}

void DaemonInProcess::stop() {
  bool is_closed = false;
  {
    const ThreadRoleScope io_thread(daemon::kIoThread);
    server_->close([&] { is_closed = true; });
  }
  run_until([&] { return is_closed; }, "all connections end");
  require(server_->state().stats().connections.get() == 0, "closed, there are no connections");
  pool_.stop();
  if (store_ != nullptr) store_->stop();
  lane_.detach_all();
}

}  // namespace locksley::fuzz
