// The files and the folder that a FaultyFileSystem opens: only its own source includes this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "tests/support/faulty_file_system.h"

namespace locksley::testing {

// A file that is open for writing.
class FaultyFileSystem::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(FaultyFileSystem& disk, std::shared_ptr<Node> node, std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk), node_(std::move(node)) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus admitted = disk_.admit(Operation::kAppend);
    if (admitted.ok()) return append(data, options, debug);
    if (disk_.has_power()) append({data.data(), data.size() / 2}, options, debug).PermitUncheckedError();
    return admitted;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  rocksdb::IOStatus PositionedAppend(const rocksdb::Slice&, std::uint64_t, const rocksdb::IOOptions&,
                                     rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported("PositionedAppend");
  }
  rocksdb::IOStatus PositionedAppend(const rocksdb::Slice&, std::uint64_t, const rocksdb::IOOptions&,
                                     const rocksdb::DataVerificationInfo&,
                                     rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported("PositionedAppend");
  }

  rocksdb::IOStatus Truncate(std::uint64_t size, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
    if (rocksdb::IOStatus admitted = disk_.admit_uncounted(); !admitted.ok()) return admitted;
    rocksdb::IOStatus truncated = target()->Truncate(size, options, debug);
    if (truncated.ok()) {
      const MutexLock lock(disk_.mutex_);
      disk_.truncated(*node_, size);
    }
    return truncated;
  }

  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    std::uint64_t end = 0;
    {
      const MutexLock lock(disk_.mutex_);
      end = node_->size;
    }
    rocksdb::IOStatus admitted = disk_.admit(Operation::kSync);
    const bool has_power = disk_.has_power();
    const MutexLock lock(disk_.mutex_);
    if (!admitted.ok() && !has_power) return admitted;
    const Node::Stretch overwritten = std::exchange(node_->overwritten, {0, 0});
    if (!admitted.ok() && overwritten.begin < overwritten.end) node_->unwritten.push_back(overwritten);
    if (end <= node_->synced) return admitted;
    if (!admitted.ok()) node_->unwritten.push_back({node_->synced, end});
    node_->synced = end;
    return admitted;
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return Sync(options, debug);
  }
  // Starts to write the range to the disk, without a guarantee that it will be there.
  rocksdb::IOStatus RangeSync(std::uint64_t, std::uint64_t, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus Close(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus admitted = disk_.admit(Operation::kClose);
    rocksdb::IOStatus closed = target()->Close(options, debug);
    return admitted.ok() ? closed : admitted;
  }

 private:
  rocksdb::IOStatus append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) {
    rocksdb::IOStatus appended = target()->Append(data, options, debug);
    if (appended.ok()) {
      const MutexLock lock(disk_.mutex_);
      const std::uint64_t end = node_->written + data.size();
      Node::Stretch& over = node_->overwritten;
      if (node_->written < node_->synced) {
        if (over.begin == over.end) over.begin = node_->written;
        over.end = std::min(end, node_->synced);
      }
      node_->written = end;
      node_->size = std::max(node_->size, end);
    }
    return appended;
  }

  FaultyFileSystem& disk_;
  const std::shared_ptr<Node> node_;
};

// Writes zeros ahead of what is appended to a file, and nothing else.
class FaultyFileSystem::ZerosAhead final : public rocksdb::FSRandomRWFileOwnerWrapper {
 public:
  ZerosAhead(FaultyFileSystem& disk, std::shared_ptr<Node> node,
             std::unique_ptr<rocksdb::FSRandomRWFile> file)
      : FSRandomRWFileOwnerWrapper(std::move(file)), disk_(disk), node_(std::move(node)) {}

  rocksdb::IOStatus Write(std::uint64_t offset, const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    const std::string_view bytes = data.ToStringView();
    {
      const MutexLock lock(disk_.mutex_);
      if (offset < node_->written || bytes.find_first_not_of('\0') != std::string_view::npos) {
        return rocksdb::IOStatus::NotSupported("only zeros, and ahead of what was appended");
      }
    }
    rocksdb::IOStatus admitted = disk_.admit(Operation::kAppend);
    if (!admitted.ok() && !disk_.has_power()) return admitted;
    const std::size_t size = admitted.ok() ? bytes.size() : bytes.size() / 2;
    rocksdb::IOStatus written = target()->Write(offset, {bytes.data(), size}, options, debug);
    if (written.ok()) {
      const MutexLock lock(disk_.mutex_);
      node_->size = std::max(node_->size, offset + size);
    }
    return admitted.ok() ? written : admitted;
  }

 private:
  FaultyFileSystem& disk_;
  const std::shared_ptr<Node> node_;
};

// The folder, as RocksDB opens it to sync it.
class FaultyFileSystem::Folder final : public rocksdb::FSDirectoryWrapper {
 public:
  Folder(FaultyFileSystem& disk, std::unique_ptr<rocksdb::FSDirectory> directory)
      : FSDirectoryWrapper(std::move(directory)), disk_(disk) {}

  rocksdb::IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    rocksdb::IOStatus admitted = disk_.admit(Operation::kSyncFolder);
    if (admitted.ok()) {
      const MutexLock lock(disk_.mutex_);
      disk_.names_on_disk_ = disk_.names_;
      disk_.since_.clear();
    }
    return admitted;
  }
  rocksdb::IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug,
                                        const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  FaultyFileSystem& disk_;
};

}  // namespace locksley::testing
