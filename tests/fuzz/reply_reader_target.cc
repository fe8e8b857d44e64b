// proto's ReplyReader: whatever is received, and in whatever pieces, the outcome is the same, and
// the memory is what has arrived. As trees, and row by row as for RESULTS.
#include <bit>
#include <cstring>
#include <optional>

#include "proto/reply_reader.h"
#include "tests/fuzz/target.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley {
namespace {

using fuzz::require;
using proto::ReadStatus;
using proto::Reply;
using proto::ReplyLimits;
using proto::ReplyReader;

// A reply as a text that is another for each other reply.
void describe(const Reply& reply, std::string& text, std::size_t depth, const ReplyLimits& limits) {
  require(depth <= limits.max_depth, "no deeper than the limit");
  require(reply.text.size() <= std::max(limits.max_bulk_bytes, std::size_t{65537}),
          "no longer than the limit");
  text += static_cast<char>('A' + static_cast<int>(reply.type));
  text += std::to_string(reply.integer) + '/' + std::to_string(std::bit_cast<std::uint64_t>(reply.real)) +
          '/' + std::to_string(reply.text.size()) + ':' + reply.text + '[';
  for (const Reply& element : reply.elements) describe(element, text, depth + 1, limits);
  text += ']';
}

// Helpers of whoever has a reply, which read texts in it.
void look_at(const Reply& reply) {
  static_cast<void>(reply.to_integer());
  static_cast<void>(reply.to_real());
  static_cast<void>(reply.error_code());
  const Reply* found = reply.find("state");
  require(found == nullptr || !reply.elements.empty(), "what is found is an element");
  for (const Reply& element : reply.elements) look_at(element);
}

// All that came of some pieces, as one text.
std::string read_trees(const std::vector<std::string_view>& pieces, const ReplyLimits& limits) {
  ReplyReader reader(limits);
  std::string transcript;
  std::size_t arrived = 0;
  for (const std::string_view piece : pieces) {
    arrived += piece.size();
    proto::feed(reader, piece, [&] {
      Reply reply;
      ReadStatus status = ReadStatus::kNeedMore;
      while ((status = reader.next(reply)) == ReadStatus::kComplete) {
        describe(reply, transcript, 0, limits);
        look_at(reply);
      }
      if (status == ReadStatus::kError) {
        require(!reader.error_message().empty(), "an error has a text");
        require(reader.next(reply) == ReadStatus::kError, "an error is for good");
      }
    });
    require(reader.memory_bytes() <= 4 * arrived + 4 * ReplyReader::kMinimumRead + 128 * 1024,
            "the memory follows what has arrived");
    if (!reader.error_message().empty()) break;
  }
  return transcript + '\n' + reader.error_message();
}

std::string read_rows(const std::vector<std::string_view>& pieces, const ReplyLimits& limits) {
  ReplyReader reader(limits);
  std::string transcript;
  proto::ResultsReply results;
  for (const std::string_view piece : pieces) {
    proto::feed(reader, piece, [&] {
      std::uint64_t rows = 0;
      const auto visit = [&](std::uint64_t index, std::string_view status, std::string_view output) {
        ++rows;
        transcript.append(std::to_string(index)).append(1, ' ').append(status).append(1, ' ').append(output);
      };
      ReadStatus status = ReadStatus::kNeedMore;
      while ((status = reader.next_results(results, visit)) == ReadStatus::kComplete) {
        require(rows <= results.rows, "rows are counted");
        rows = 0;
        transcript += '{' + std::to_string(results.cursor) + ',' + std::to_string(results.rows) + ',' +
                      results.error + '}';
      }
    });
    if (!reader.error_message().empty()) break;
  }
  return transcript + '\n' + reader.error_message();
}

}  // namespace
}  // namespace locksley

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley;
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  ReplyLimits limits;
  if ((choice & 1) != 0)
    limits = {.max_bulk_bytes = 60, .max_elements = 7, .max_depth = 2, .max_reply_bytes = 100};
  const auto read = (choice & 2) != 0 ? read_rows : read_trees;
  const fuzz::Cuts cuts = fuzz::Cuts::of(input);
  const std::string_view bytes = input.rest();

  const std::string whole = read({bytes}, limits);
  require(read(cuts.apply(bytes), limits) == whole, "however it was cut, the outcome is the same");
  constexpr std::size_t kMostByteByByte = 512;
  if (bytes.size() <= kMostByteByByte) {
    require(read(proto::cut_evenly(bytes, 1), limits) == whole, "byte by byte it is the same");
  }
  return 0;
}
