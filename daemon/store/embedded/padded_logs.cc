#include "daemon/store/embedded/padded_logs.h"

#include <atomic>
#include <utility>

namespace locksley::daemon {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// A log that is open for writing. One thread at a time appends, truncates and closes, as RocksDB
// does; another one may sync meanwhile, or ask for the size.
class PaddedLogs::Log final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  Log(PaddedLogs& files, std::string name, rocksdb::FileOptions options,
      std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)),
        files_(files),
        name_(std::move(name)),
        options_(std::move(options)) {
    const MutexLock lock(files_.mutex_);
    files_.open_[name_] = this;
  }
  ~Log() override {
    const MutexLock lock(files_.mutex_);
    files_.open_.erase(name_);
  }

  std::uint64_t size() const { return size_.load(); }

  // Syncs the last record, if that has not been done and it may have overwritten zeros.
  IOStatus sync_over_zeros(const IOOptions& options, IODebugContext* debug) {
    return zeros_end_ != 0 && synced_.load() < size_.load() ? Sync(options, debug) : IOStatus::OK();
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus prepared = prepare(data.size(), options, debug); !prepared.ok()) return prepared;
    IOStatus appended = target()->Append(data, options, debug);
    if (!appended.ok()) return appended;
    const std::uint64_t end = size_ += data.size();
    const bool is_small = synced_small_group_.load() && data.size() <= kSmallGroup;
    if (is_small && end >= zeros_end_) write_zeros(end, options, debug);
    return appended;
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return synced(size_.load(), target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return synced(size_.load(), target()->Fsync(options, debug));
  }

  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    IOStatus truncated = target()->Truncate(size, options, debug);
    if (truncated.ok()) {
      size_ = size;
      zeros_end_ = 0;
    }
    return truncated;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    // Zeros that stay are harmless.
    if (zeros_end_ != 0) Truncate(size_.load(), options, debug).PermitUncheckedError();
    if (ahead_) ahead_->Close(options, debug).PermitUncheckedError();
    return target()->Close(options, debug);
  }

 private:
  // Before `bytes` are appended.
  IOStatus prepare(std::uint64_t bytes, const IOOptions& options, IODebugContext* debug) {
    if (IOStatus synced = sync_over_zeros(options, debug); !synced.ok()) return synced;
    if (bytes <= kSmallGroup) return IOStatus::OK();
    const std::uint64_t size = size_.load();
    if (size < zeros_end_) return Truncate(size, options, debug);
    zeros_end_ = 0;
    return IOStatus::OK();
  }
  IOStatus synced(std::uint64_t size, IOStatus status) {
    if (status.ok()) synced_small_group_ = size - synced_.exchange(size) <= kSmallGroup;
    return status;
  }
  void write_zeros(std::uint64_t from, const IOOptions& options, IODebugContext* debug) {
    static const std::string zeros(kZeros, '\0');
    if (!ahead_) {
      if (has_failed_ || !files_.target()->NewRandomRWFile(name_, options_, &ahead_, debug).ok()) {
        has_failed_ = true;
        return;
      }
    }
    zeros_end_ = from + kZeros;
    if (ahead_->Write(from, zeros, options, debug).ok()) return;
    has_failed_ = true;
    ahead_.reset();
    target()->Truncate(from, options, debug).PermitUncheckedError();
    zeros_end_ = from;
  }

  PaddedLogs& files_;
  const std::string name_;
  const rocksdb::FileOptions options_;
  std::unique_ptr<rocksdb::FSRandomRWFile> ahead_;  // the same file; opened for the first zeros
  bool has_failed_ = false;                         // zeros could not be written: no further attempt
  // There are zeros from size_ to here, if this is more. 0: the last record has overwritten none.
  std::uint64_t zeros_end_ = 0;
  std::atomic<std::uint64_t> size_ = 0;           // of the appended bytes
  std::atomic<std::uint64_t> synced_ = 0;         // of this so much
  std::atomic<bool> synced_small_group_ = false;  // the last sync was for few bytes
};

PaddedLogs::PaddedLogs(const std::shared_ptr<rocksdb::FileSystem>& files, const std::string& folder)
    : FileSystemWrapper(files), folder_((std::filesystem::path(folder) / "").lexically_normal()) {}
PaddedLogs::~PaddedLogs() = default;

bool PaddedLogs::is_log(const std::string& name) const {
  const std::filesystem::path path = std::filesystem::path(name).lexically_normal();
  return path.extension() == ".log" && path.parent_path() / "" == folder_;
}

IOStatus PaddedLogs::NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                     std::unique_ptr<rocksdb::FSWritableFile>* result,
                                     IODebugContext* debug) {
  if (!is_log(name)) return target()->NewWritableFile(name, options, result, debug);
  {
    const MutexLock lock(mutex_);
    for (const auto& [_, log] : open_) {
      if (IOStatus synced = log->sync_over_zeros(options.io_options, debug); !synced.ok()) return synced;
    }
  }
  IOStatus made = target()->NewWritableFile(name, options, result, debug);
  if (made.ok()) *result = std::make_unique<Log>(*this, name, options, std::move(*result));
  return made;
}

IOStatus PaddedLogs::GetFileSize(const std::string& name, const IOOptions& options, std::uint64_t* size,
                                 IODebugContext* debug) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = open_.find(name); found != open_.end()) {
      *size = found->second->size();
      return IOStatus::OK();
    }
  }
  return target()->GetFileSize(name, options, size, debug);
}

}  // namespace locksley::daemon
