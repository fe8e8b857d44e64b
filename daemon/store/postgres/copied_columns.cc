#include "daemon/store/postgres/copied_columns.h"

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "daemon/store/engine/key.h"

namespace locksley::daemon {
namespace {

// A signature of 11 bytes, flags, and the size of an extension, which is none.
constexpr std::size_t kHeaderBytes = 19;
constexpr std::uint64_t kEnd = 0xFFFF;  // columns

std::string_view take_bytes(std::string_view& bytes, std::size_t size) {
  check(bytes.size() >= size, "a row of COPY is too short");
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

}  // namespace

CopiedColumns::CopiedColumns(std::string_view row, bool is_first) : left_(row) {
  if (is_first) take_bytes(left_, kHeaderBytes);
  is_end_ = key_number(take_bytes(left_, sizeof(std::uint16_t))) == kEnd;
}

std::string_view CopiedColumns::take() {
  return take_bytes(left_, key_number(take_bytes(left_, sizeof(std::uint32_t))));
}

std::int64_t CopiedColumns::take_number() { return static_cast<std::int64_t>(key_number(take())); }

}  // namespace locksley::daemon
