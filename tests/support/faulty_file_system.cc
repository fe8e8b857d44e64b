#include "tests/support/faulty_file_system.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/support/faulty_file.h"

namespace locksley::testing {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr std::chrono::seconds kLongestHold{30};
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSector = 512;

class SilentLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
  std::size_t GetLogFileSize() const override { return 0; }
};

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

}  // namespace

FaultyFileSystem::FaultyFileSystem(std::filesystem::path folder, std::uint64_t seed)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), folder_(folder.lexically_normal()), random_(seed) {
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    auto node = std::make_shared<Node>();
    node->size = node->written = node->synced = entry.file_size();
    names_.emplace(entry.path().filename().string(), std::move(node));
  }
  names_on_disk_ = names_;
}

FaultyFileSystem::~FaultyFileSystem() = default;

void FaultyFileSystem::fail(Operation operation, std::uint64_t n, IOStatus status, Lasting lasting) {
  const MutexLock lock(mutex_);
  fault_ = {operation, counts_[static_cast<std::size_t>(operation)] + n, std::move(status), lasting};
  failed_ = false;
}

void FaultyFileSystem::heal() {
  const MutexLock lock(mutex_);
  fault_.reset();
}

bool FaultyFileSystem::has_failed() const {
  const MutexLock lock(mutex_);
  return failed_;
}

std::uint64_t FaultyFileSystem::count(Operation operation) const {
  const MutexLock lock(mutex_);
  return counts_[static_cast<std::size_t>(operation)];
}

std::uint64_t FaultyFileSystem::count() const {
  const MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) sum += count;
  return sum;
}

std::uint64_t FaultyFileSystem::databases_opened() const {
  const MutexLock lock(mutex_);
  return databases_;
}

void FaultyFileSystem::hold(Operation operation) {
  const MutexLock lock(mutex_);
  held_ = operation;
}

void FaultyFileSystem::release() {
  {
    const MutexLock lock(mutex_);
    held_.reset();
  }
  held_changed_.notify_all();
}

bool FaultyFileSystem::await_held() {
  const auto deadline = std::chrono::steady_clock::now() + kLongestHold;
  const MutexLock lock(mutex_);
  while (waiting_ == 0) {
    if (held_changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return waiting_ != 0;
  }
  return true;
}

void FaultyFileSystem::cut_power(std::uint64_t more) {
  const MutexLock lock(mutex_);
  power_left_ = more;
}

bool FaultyFileSystem::has_power() const {
  const MutexLock lock(mutex_);
  return power_left_ != 0;
}

void FaultyFileSystem::restore_power() {
  const MutexLock lock(mutex_);
  power_left_.reset();
}

IOStatus FaultyFileSystem::admit(Operation operation) {
  const MutexLock lock(mutex_);
  const std::uint64_t number = ++counts_[static_cast<std::size_t>(operation)];
  if (held_ == operation) {
    ++waiting_;
    held_changed_.notify_all();
    const auto deadline = std::chrono::steady_clock::now() + kLongestHold;
    auto waited = std::cv_status::no_timeout;
    while (held_ == operation && waited == std::cv_status::no_timeout) {
      waited = held_changed_.wait_until(mutex_, deadline);
    }
    --waiting_;
    if (held_ == operation) return IOStatus::TimedOut("held for too long");
  }
  if (power_left_ == 0) return IOStatus::IOError("no power");
  if (power_left_) --*power_left_;
  if (fault_ && fault_->operation == operation &&
      (fault_->lasting == Lasting::kOnce ? number == fault_->at : number >= fault_->at)) {
    failed_ = true;
    return fault_->status;
  }
  return IOStatus::OK();
}

IOStatus FaultyFileSystem::admit_uncounted() const {
  return has_power() ? IOStatus::OK() : IOStatus::IOError("no power");
}

bool FaultyFileSystem::is_ours(const std::string& name) const {
  return std::filesystem::path(name).lexically_normal().parent_path() == folder_;
}

void FaultyFileSystem::set_aside(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end()) return;
  Node& node = *found->second;
  node.bytes = read_file(folder_ / name);
}

void FaultyFileSystem::rename(Renaming renaming) {
  for (const auto& [name, node] : renaming) {
    if (node != nullptr) {
      names_[name] = node;
    } else {
      names_.erase(name);
    }
  }
  since_.push_back(std::move(renaming));
}

std::shared_ptr<FaultyFileSystem::Node> FaultyFileSystem::create(const std::string& name) {
  auto node = std::make_shared<Node>();
  const MutexLock lock(mutex_);
  rename({{name, node}});
  return node;
}

std::shared_ptr<FaultyFileSystem::Node> FaultyFileSystem::find(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = names_.find(name);
  return found != names_.end() ? found->second : nullptr;
}

IOStatus FaultyFileSystem::NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                                           IODebugContext* debug) {
  if (!is_ours(name)) return target()->NewWritableFile(name, options, result, debug);
  if (IOStatus admitted = admit(Operation::kOpen); !admitted.ok()) return admitted;
  {
    const MutexLock lock(mutex_);
    set_aside(file_name(name));
  }
  std::unique_ptr<rocksdb::FSWritableFile> file;
  IOStatus opened = target()->NewWritableFile(name, options, &file, debug);
  if (opened.ok()) *result = std::make_unique<File>(*this, create(file_name(name)), std::move(file));
  return opened;
}

IOStatus FaultyFileSystem::ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                                              IODebugContext* debug) {
  if (!is_ours(name)) return target()->ReopenWritableFile(name, options, result, debug);
  if (IOStatus admitted = admit(Operation::kOpen); !admitted.ok()) return admitted;
  std::unique_ptr<rocksdb::FSWritableFile> file;
  IOStatus opened = target()->ReopenWritableFile(name, options, &file, debug);
  if (opened.ok()) {
    std::shared_ptr<Node> node = find(file_name(name));
    if (node == nullptr) node = create(file_name(name));
    {
      const MutexLock lock(mutex_);
      node->written = node->size;
    }
    *result = std::make_unique<File>(*this, std::move(node), std::move(file));
  }
  return opened;
}

IOStatus FaultyFileSystem::ReuseWritableFile(const std::string& name, const std::string& old_name,
                                             const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                                             IODebugContext* debug) {
  return FileSystem::ReuseWritableFile(name, old_name, options, result, debug);
}

IOStatus FaultyFileSystem::NewRandomRWFile(const std::string& name, const rocksdb::FileOptions& options,
                                           std::unique_ptr<rocksdb::FSRandomRWFile>* result,
                                           IODebugContext* debug) {
  std::shared_ptr<Node> node = find(file_name(name));
  if (!is_ours(name) || node == nullptr) return IOStatus::NotSupported("NewRandomRWFile");
  if (IOStatus admitted = admit(Operation::kOpen); !admitted.ok()) return admitted;
  std::unique_ptr<rocksdb::FSRandomRWFile> file;
  IOStatus opened = target()->NewRandomRWFile(name, options, &file, debug);
  if (opened.ok()) *result = std::make_unique<ZerosAhead>(*this, std::move(node), std::move(file));
  return opened;
}

IOStatus FaultyFileSystem::LinkFile(const std::string&, const std::string&, const IOOptions&,
                                    IODebugContext*) {
  return IOStatus::NotSupported("LinkFile");
}

IOStatus FaultyFileSystem::NewDirectory(const std::string& name, const IOOptions& options,
                                        std::unique_ptr<rocksdb::FSDirectory>* result,
                                        IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> directory;
  IOStatus opened = target()->NewDirectory(name, options, &directory, debug);
  if (opened.ok()) *result = std::make_unique<Folder>(*this, std::move(directory));
  return opened;
}

IOStatus FaultyFileSystem::NewLogger(const std::string&, const IOOptions&,
                                     std::shared_ptr<rocksdb::Logger>* result, IODebugContext*) {
  *result = std::make_shared<SilentLogger>();
  return IOStatus::OK();
}

IOStatus FaultyFileSystem::RenameFile(const std::string& from, const std::string& to,
                                      const IOOptions& options, IODebugContext* debug) {
  if (!is_ours(from) || !is_ours(to)) return target()->RenameFile(from, to, options, debug);
  if (IOStatus admitted = admit(Operation::kRename); !admitted.ok()) return admitted;
  const MutexLock lock(mutex_);
  set_aside(file_name(to));
  IOStatus renamed = target()->RenameFile(from, to, options, debug);
  if (const auto found = names_.find(file_name(from)); renamed.ok() && found != names_.end()) {
    rename({{file_name(to), found->second}, {file_name(from), nullptr}});
  }
  return renamed;
}

IOStatus FaultyFileSystem::DeleteFile(const std::string& name, const IOOptions& options,
                                      IODebugContext* debug) {
  if (!is_ours(name)) return target()->DeleteFile(name, options, debug);
  if (IOStatus admitted = admit_uncounted(); !admitted.ok()) return admitted;
  const MutexLock lock(mutex_);
  set_aside(file_name(name));
  IOStatus deleted = target()->DeleteFile(name, options, debug);
  if (deleted.ok()) rename({{file_name(name), nullptr}});
  return deleted;
}

IOStatus FaultyFileSystem::Truncate(const std::string& name, std::size_t size, const IOOptions& options,
                                    IODebugContext* debug) {
  if (IOStatus admitted = admit_uncounted(); !admitted.ok()) return admitted;
  IOStatus truncated = target()->Truncate(name, size, options, debug);
  if (const std::shared_ptr<Node> node = find(file_name(name)); truncated.ok() && node != nullptr) {
    const MutexLock lock(mutex_);
    FaultyFileSystem::truncated(*node, size);
  }
  return truncated;
}

void FaultyFileSystem::truncated(Node& node, std::uint64_t size) {
  node.size = size;
  node.written = std::min(node.written, size);
  node.synced = std::min(node.synced, size);
  node.overwritten.end = std::min(node.overwritten.end, size);
  node.overwritten.begin = std::min(node.overwritten.begin, node.overwritten.end);
}

IOStatus FaultyFileSystem::LockFile(const std::string& name, const IOOptions& options,
                                    rocksdb::FileLock** lock, IODebugContext* debug) {
  {
    const MutexLock guard(mutex_);
    ++databases_;
  }
  return target()->LockFile(name, options, lock, debug);
}

std::string FaultyFileSystem::remains_of(const Node& node, const std::string& bytes, Tail tail) {
  const auto below = [this](std::size_t end) LOCKSLEY_REQUIRES(mutex_) {
    return std::uniform_int_distribution<std::size_t>(0, end)(random_);
  };
  const auto noise = [this](char) LOCKSLEY_REQUIRES(mutex_) { return static_cast<char>(random_()); };
  std::string rest = bytes.substr(0, node.synced);
  for (std::size_t at = node.overwritten.begin; at < node.overwritten.end;) {
    const std::size_t end = std::min<std::size_t>((at / kSector + 1) * kSector, node.overwritten.end);
    if (tail == Tail::kLost || below(1) == 0) rest.replace(at, end - at, end - at, '\0');
    at = end;
  }
  const bool has_more = tail != Tail::kLost && bytes.size() > node.synced;
  for (const Node::Stretch& stretch : node.unwritten) {
    if (stretch.begin >= rest.size()) continue;
    const std::size_t end = std::min<std::size_t>(stretch.end, rest.size());
    // At the end of the file: perhaps its size was not written either.
    if (end == rest.size() && !has_more && below(1) == 0) {
      rest.resize(stretch.begin);
    } else {
      std::fill(rest.begin() + static_cast<std::ptrdiff_t>(stretch.begin),
                rest.begin() + static_cast<std::ptrdiff_t>(end), '\0');
    }
  }
  if (!has_more) return rest;
  std::string more = bytes.substr(node.synced);
  const std::size_t torn = below(more.size());
  if (tail == Tail::kTorn) {
    more.resize(torn);
    return rest.append(more);
  }
  const auto behind = more.begin() + static_cast<std::ptrdiff_t>(torn);
  if (tail == Tail::kZeros) std::fill(behind, more.end(), '\0');
  if (tail == Tail::kNoise) std::transform(behind, more.end(), behind, noise);
  if (tail == Tail::kPages) {
    for (std::size_t at = 0; at < more.size();) {
      const std::size_t page = std::min(kPage - (node.synced + at) % kPage, more.size() - at);
      if (below(1) == 0) more.replace(at, page, page, '\0');
      at += page;
    }
  }
  return rest.append(more);
}

void FaultyFileSystem::lose_power(Tail tail) {
  const MutexLock lock(mutex_);
  const std::size_t happened = std::uniform_int_distribution<std::size_t>(0, since_.size())(random_);
  for (std::size_t i = 0; i < happened; ++i) {
    for (const auto& [name, node] : since_[i]) {
      if (node != nullptr) {
        names_on_disk_[name] = node;
      } else {
        names_on_disk_.erase(name);
      }
    }
  }
  std::map<const Node*, std::string> now;
  for (const auto& [name, node] : names_) now[node.get()] = name;
  std::map<std::string, std::string> remains;
  for (const auto& [name, node] : names_on_disk_) {
    const auto found = now.find(node.get());
    const std::string bytes =
        found != now.end() ? read_file(folder_ / found->second) : node->bytes.value_or("");
    remains[name] = remains_of(*node, bytes, tail);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    std::filesystem::remove(entry.path());
  names_.clear();
  for (const auto& [name, bytes] : remains) {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    auto node = std::make_shared<Node>();
    node->size = node->written = node->synced = bytes.size();
    names_.emplace(name, std::move(node));
  }
  names_on_disk_ = names_;
  since_.clear();
  fault_.reset();
  power_left_.reset();
}

}  // namespace locksley::testing
