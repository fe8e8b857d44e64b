#include "daemon/store/embedded/torn_log.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace locksley::daemon {
namespace {

constexpr std::size_t kBlock = 32U << 10;
constexpr std::size_t kSector = 512;
constexpr std::size_t kHeader = 7;  // checksum: 4 bytes, length: 2, kind: 1

enum class Kind : std::uint8_t { kNone = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

struct Fragment {
  Kind kind;
  std::size_t end;  // of its bytes; behind the log if these are cut off
};

std::size_t end_of_block(std::size_t at) { return (at / kBlock + 1) * kBlock; }

// The beginning of the fragment that follows `at`: the last bytes of a block have no room for a
// header.
std::size_t next_header(std::size_t at) { return end_of_block(at) - at < kHeader ? end_of_block(at) : at; }

bool is_zeros(std::string_view log, std::size_t begin, std::size_t end) {
  end = std::min(end, log.size());
  return begin < end && log.substr(begin, end - begin).find_first_not_of('\0') == std::string_view::npos;
}

// Whether a sector, or the part of it that lies in the range, is zeros, or is cut off.
bool lacks_a_sector(std::string_view log, std::size_t begin, std::size_t end) {
  if (end > log.size()) return true;
  for (std::size_t at = begin; at < end;) {
    const std::size_t next = std::min((at / kSector + 1) * kSector, end);
    if (is_zeros(log, at, next)) return true;
    at = next;
  }
  return false;
}

// Nothing if there cannot be such a fragment.
std::optional<Fragment> fragment_at(std::string_view log, std::size_t at) {
  if (at + kHeader > log.size()) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(log[at + i]); };
  const auto kind = static_cast<Kind>(byte(6));
  const std::size_t end = at + kHeader + byte(4) + (std::size_t{byte(5)} << 8U);
  if (kind < Kind::kFull || kind > Kind::kLast || end > end_of_block(at)) return std::nullopt;
  return Fragment{.kind = kind, .end = end};
}

bool begins_record(Kind kind) { return kind == Kind::kFull || kind == Kind::kFirst; }
bool ends_record(Kind kind) { return kind == Kind::kFull || kind == Kind::kLast; }

// The end of the record at `at`, of which RocksDB has checked the fragments.
std::optional<std::size_t> end_of_record(std::string_view log, std::size_t at) {
  while (const auto fragment = fragment_at(log, next_header(at))) {
    at = fragment->end;
    if (ends_record(fragment->kind)) return at;
  }
  return std::nullopt;
}

// Whether [begin, end), whose last byte is not zero, can be a part of one record.
bool is_torn(std::string_view log, std::size_t begin, std::size_t end) {
  bool lacks_any = false;
  bool is_over = false;
  for (std::size_t at = begin; at < end; at = next_header(at)) {
    if (is_over) return false;
    // If a part of its header is missing, the fragment may have any length.
    std::size_t end_of_fragment = end_of_block(at);
    if (!lacks_a_sector(log, at, at + kHeader)) {
      const auto fragment = fragment_at(log, at);
      if (!fragment || begins_record(fragment->kind) != (at == begin)) return false;
      is_over = ends_record(fragment->kind);
      if (!is_over && fragment->end != end_of_fragment) return false;
      end_of_fragment = fragment->end;
    }
    lacks_any = lacks_any || lacks_a_sector(log, at, end_of_fragment);
    at = end_of_fragment;
  }
  return lacks_any;
}

}  // namespace

std::optional<std::uint64_t> torn_record(std::string_view log, std::uint64_t records) {
  std::size_t begin = 0;
  for (; records != 0; --records) {
    const auto end = end_of_record(log, begin);
    if (!end) return std::nullopt;
    begin = *end;
  }
  begin = next_header(begin);
  const std::size_t end = log.find_last_not_of('\0') + 1;  // 0: all are zeros
  if (begin >= end || !is_torn(log, begin, end)) return std::nullopt;
  return begin;
}

std::string cut_torn_record(rocksdb::Env* env, const std::string& folder, const LogContinuity& replayed) {
  if (env == nullptr) env = rocksdb::Env::Default();
  std::vector<std::string> names;
  if (!env->GetChildren(folder, &names).ok()) return "";
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".log"); });
  if (names.empty()) return "";
  // RocksDB numbers its files; the numbers have at least six digits.
  const std::string last = *std::ranges::max_element(
      names, {}, [](const std::string& name) { return std::pair(name.size(), name); });
  std::string log;
  if (!rocksdb::ReadFileToString(env, folder + "/" + last, &log).ok()) return "";
  const auto at = torn_record(log, replayed.whole_records(last));
  if (!at) return "";
  std::unique_ptr<rocksdb::WritableFile> file;
  if (!env->ReopenWritableFile(folder + "/" + last, &file, {}).ok()) return "";
  return file->Truncate(*at).ok() && file->Close().ok() ? last : "";
}

}  // namespace locksley::daemon
