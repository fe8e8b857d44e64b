#include "daemon/store/embedded/fast_checksum.h"

#include <dlfcn.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Distributions build RocksDB for every processor of an architecture, so its library computes
// checksums with tables, a byte in a cycle, where the instructions that most processors have take a
// twentieth of that. It calls this function of its own by its name. The dynamic linker looks for
// names in the program first, and so finds this definition, which returns the same.
namespace rocksdb::crc32c {

// The CRC-32C (RFC 3720, appendix B.4) of the bytes of which `before` is the CRC-32C, followed by
// these.
[[gnu::visibility("default")]] std::uint32_t Extend(std::uint32_t before, const char* data,
                                                    std::size_t size) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // ISA-L takes an int
  std::uint32_t sum = before;
  while (size != 0) {
    const std::size_t some = std::min(size, kMost);
    // ISA-L reads only, and leaves it to the caller to invert the bits before and after.
    auto* const bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(data));
    sum = ~::crc32_iscsi(bytes, static_cast<int>(some), ~sum);
    data += some;
    size -= some;
  }
  return sum;
}

}  // namespace rocksdb::crc32c

namespace locksley::daemon {

bool has_fast_checksums() {
  const auto own = reinterpret_cast<void*>(&rocksdb::crc32c::Extend);
  return ::dlsym(RTLD_DEFAULT, "_ZN7rocksdb6crc32c6ExtendEjPKcm") == own;
}

}  // namespace locksley::daemon
