#include "daemon/store/embedded/disk_reserve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kMostMemtable = 64U << 20;
constexpr std::uint64_t kLeastMemtable = 256U << 10;
constexpr std::uint64_t kPartOfDisk = 2048;
constexpr std::uint64_t kRoom = 16;    // memtables
constexpr std::uint64_t kReserve = 8;  // memtables: a start writes the log once more, as tables
// While more than so many reserves are free, other programs are not expected to fill the disk at
// once.
constexpr std::uint64_t kLittle = 64;

}  // namespace

StoreSizes StoreSizes::of(const std::optional<DiskSpace>& disk) {
  const std::uint64_t part = disk ? disk->size_bytes / kPartOfDisk : kMostMemtable;
  const std::uint64_t memtable = std::clamp(part, kLeastMemtable, kMostMemtable);
  return {.memtable = memtable,
          .room = kRoom * memtable,
          .reserve = kReserve * memtable,
          .write_bytes = std::min<std::uint64_t>(memtable, 4U << 20),
          .is_small = memtable < kMostMemtable};
}

DiskReserve::DiskReserve(std::string folder, StoreSizes sizes)
    : folder_(std::move(folder)), file_(folder_ + "/" + kFile), sizes_(sizes) {
  std::error_code ignored;
  is_made_ = std::filesystem::exists(file_, ignored);
}

std::expected<void, std::string> DiskReserve::check(std::uint64_t bytes) {
  const auto disk = disk_space(folder_);
  if (!disk) return {};  // the write will fail with the reason
  const std::uint64_t needed = 2 * bytes + sizes_.room;
  if (disk->free_bytes < needed) {
    return std::unexpected(
        fmt::format("the disk is full: {} of {} bytes are free for {}, and the store leaves {} free, in "
                    "which batches can be deleted; FORGET batches, or make room",
                    disk->free_bytes, disk->size_bytes, folder_, sizes_.room));
  }
  const bool has_little = disk->free_bytes < kLittle * sizes_.reserve;
  if (!is_made_ && has_little && disk->free_bytes >= needed + sizes_.reserve) make();
  if (is_made_ && !has_little) release();
  return {};
}

bool DiskReserve::has_last_room(std::uint64_t bytes) const {
  const auto disk = disk_space(folder_);
  return !disk || disk->free_bytes >= 2 * bytes + sizes_.room / 4;
}

void DiskReserve::make() {
  const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  is_made_ = ::posix_fallocate(file, 0, static_cast<off_t>(sizes_.reserve)) == 0;
  ::close(file);
  if (!is_made_) ::unlink(file_.c_str());
}

void DiskReserve::release() {
  ::unlink(file_.c_str());
  is_made_ = false;
}

}  // namespace locksley::daemon
