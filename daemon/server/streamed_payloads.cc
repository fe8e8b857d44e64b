#include "daemon/server/streamed_payloads.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/check.h"

namespace locksley::daemon {

void StreamedPayloads::add(proto::ArgumentList payloads) {
  const std::size_t added = payloads.size();
  if (added == 0) return;
  if (payloads.payload_bytes() <= kCopiedBytes) {
    const std::lock_guard lock(mutex_);
    copy(payloads);
    count_ += added;
    return;
  }
  payloads.compact();
  memory_bytes_ += payloads.memory_bytes();
  const std::lock_guard lock(mutex_);
  pieces_.push_back({.first = count_, .received = std::move(payloads), .bytes = nullptr, .ends = {}});
  count_ += added;
}

void StreamedPayloads::copy(const proto::ArgumentList& payloads) {
  constexpr std::size_t kMostEnds = kPieceBytes / 4;  // empty payloads take no bytes, but must end somewhere
  const bool fits = !pieces_.empty() && pieces_.back().bytes != nullptr &&
                    pieces_.back().used + payloads.payload_bytes() <= kPieceBytes &&
                    pieces_.back().ends.size() < kMostEnds;
  if (!fits) {
    pieces_.push_back({.first = count_,
                       .received = {},
                       .bytes = std::make_unique_for_overwrite<char[]>(kPieceBytes),
                       .ends = {}});
    memory_bytes_ += kPieceBytes;
  }
  Piece& piece = pieces_.back();
  for (const std::string_view payload : payloads) {
    std::memcpy(piece.bytes.get() + piece.used, payload.data(), payload.size());
    piece.used += payload.size();
    piece.ends.push_back(static_cast<std::uint32_t>(piece.used));
  }
  memory_bytes_ += payloads.size() * sizeof(std::uint32_t);
}

void StreamedPayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) {
  const std::shared_lock lock(mutex_);
  check(first + out.size() <= count_, "a job beyond the end of its batch was claimed");
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                [](std::uint64_t index, const Piece& p) { return index < p.first; });
  --piece;
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t skip = static_cast<std::size_t>(first + done - piece->first);
    if (piece->bytes == nullptr) {
      done += piece->received.fetch(skip, out.subspan(done));
    } else {
      const std::size_t n = std::min(out.size() - done, piece->ends.size() - skip);
      std::size_t begin = skip == 0 ? 0 : piece->ends[skip - 1];
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t end = piece->ends[skip + i];
        out[done + i] = {piece->bytes.get() + begin, end - begin};
        begin = end;
      }
      done += n;
    }
    ++piece;
  }
}

void StreamedPayloads::release() {
  std::deque<Piece> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(pieces_);
  }
  memory_bytes_ = 0;
}

}  // namespace locksley::daemon
