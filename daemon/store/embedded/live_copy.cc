#include "daemon/store/embedded/live_copy.h"

#include <rocksdb/env.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace locksley::daemon {
namespace {

using rocksdb::Status;

constexpr std::uint64_t kPiece = 1U << 20;        // bytes
constexpr std::uint64_t kSyncEvery = 8 * kPiece;  // so that syncs of commits never wait for much of it; guess

class Copying {
 public:
  Copying(rocksdb::Env& env, const LiveCopy& copy) : env_(env), copy_(copy) {}

  Status copy(const rocksdb::LiveFileStorageInfo& file) {
    if (!copy_.goes_on()) return Status::Aborted();
    const std::string from = file.directory + "/" + file.relative_filename;
    const std::string to = copy_.folder + "/" + file.relative_filename;
    if (!file.replacement_contents.empty()) {
      return rocksdb::WriteStringToFile(&env_, file.replacement_contents, to, true);
    }
    // RocksDB has synced a table before it lists it.
    if (file.file_type == rocksdb::kTableFile && links_) {
      links_ = env_.LinkFile(from, to).ok();
      if (links_) return Status::OK();
    }
    return copy(from, to, file.size);
  }

  Status sync_folder() {
    std::unique_ptr<rocksdb::Directory> folder;
    const Status opened = env_.NewDirectory(copy_.folder, &folder);
    return opened.ok() ? folder->Fsync() : opened;
  }

 private:
  // The first `size` bytes.
  Status copy(const std::string& from, const std::string& to, std::uint64_t size) {
    std::unique_ptr<rocksdb::SequentialFile> source;
    std::unique_ptr<rocksdb::WritableFile> target;
    Status status = env_.NewSequentialFile(from, &source, {});
    if (status.ok()) status = env_.NewWritableFile(to, &target, {});
    for (std::uint64_t copied = 0; status.ok() && copied < size;) {
      if (!copy_.goes_on()) return Status::Aborted();
      rocksdb::Slice piece;
      status =
          source->Read(static_cast<std::size_t>(std::min(kPiece, size - copied)), &piece, buffer_.data());
      if (status.ok() && piece.empty())
        status = Status::Corruption(from, "is shorter than its database says");
      if (status.ok()) status = target->Append(piece);
      copied += piece.size();
      if (status.ok() && copied % kSyncEvery == 0) status = target->Sync();
    }
    if (status.ok()) status = target->Sync();
    if (status.ok()) status = target->Close();
    return status;
  }

  rocksdb::Env& env_;
  const LiveCopy& copy_;
  bool links_ = true;  // none has failed
  std::vector<char> buffer_ = std::vector<char>(kPiece);
};

Status copy_listed(rocksdb::DB& db, const LiveCopy& copy) {
  rocksdb::LiveFilesStorageInfoOptions options;
  options.wal_size_for_flush = std::numeric_limits<std::uint64_t>::max();  // no flush: the log is copied
  std::vector<rocksdb::LiveFileStorageInfo> files;
  Status status = db.GetLiveFilesStorageInfo(options, &files);
  // Payloads are for the owner alone, as in the store's own folder.
  if (status.ok() && ::mkdir(copy.folder.c_str(), S_IRWXU) != 0) {
    status = Status::IOError(copy.folder, "cannot be made: " + std::generic_category().message(errno));
  }
  Copying copying(*db.GetEnv(), copy);
  for (std::size_t i = 0; status.ok() && i < files.size(); ++i) status = copying.copy(files[i]);
  return status.ok() ? copying.sync_folder() : status;
}

}  // namespace

Status copy_live_files(rocksdb::DB& db, const LiveCopy& copy) {
  if (const Status disabled = db.DisableFileDeletions(); !disabled.ok()) return disabled;
  Status status = copy_listed(db, copy);
  const Status enabled = db.EnableFileDeletions(/*force=*/false);
  return status.ok() ? enabled : status;
}

}  // namespace locksley::daemon
