// proto's CommandReader: whatever is received, and in whatever pieces, the outcome is the same, the
// memory is what has arrived, and what was read can be written and read again.
#include <array>

#include "proto/command_writer.h"
#include "tests/fuzz/target.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley {
namespace {

using fuzz::require;
using proto::Command;
using proto::CommandReader;
using proto::Limits;
using proto::ReadStatus;
using proto::Transcript;

// So small that inputs reach them.
Limits limits_of(std::uint8_t choice) {
  Limits limits = (choice & 1) != 0 ? Limits::before_authentication() : Limits{};
  if ((choice & 2) != 0) limits.max_bulk_bytes = 60;  // below what has a fast path, too
  if ((choice & 4) != 0) limits.max_inline_bytes = 100;
  if ((choice & 8) != 0) limits.max_command_bytes = 300;
  if ((choice & 16) != 0) limits.max_arguments = 5;
  return limits;
}

// All ways to look at a list of arguments show the same.
void check_list(proto::ArgumentList& list, std::size_t dropped) {
  std::vector<std::string> seen(list.begin(), list.end());
  require(seen.size() == list.size(), "the iterator visits each argument");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    require(list[i] == seen[i], "by index as by iterator");
    bytes += seen[i].size();
  }
  require(bytes == list.payload_bytes(), "payload_bytes() is the sum");
  std::array<std::string_view, 7> some;
  for (std::size_t first = 0; first < list.size();) {
    const std::size_t fetched = list.fetch(first, some);
    require(fetched == std::min(some.size(), list.size() - first), "fetch() gives what there is");
    for (std::size_t i = 0; i < fetched; ++i) require(some[i] == seen[first + i], "fetched as by index");
    first += fetched;
  }
  dropped = std::min(dropped, list.size());
  list.drop_front(dropped);
  list.compact();
  seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(dropped));
  require(std::ranges::equal(list, seen), "what was not dropped stays");
}

// As read_pieces() does it, with an eye on the memory.
Transcript read_watched(const std::vector<std::string_view>& pieces, const Limits& limits) {
  CommandReader reader(limits);
  Transcript transcript;
  std::size_t arrived = 0;
  for (const std::string_view piece : pieces) {
    read_into(reader, piece, transcript);
    arrived += piece.size();
    require(reader.memory_bytes() <= 2 * CommandReader::kBlockBytes + 4 * arrived,
            "the memory follows what has arrived");
    require(reader.buffered_bytes() <= arrived, "no more is buffered than has arrived");
    if (reader.is_idle()) {
      reader.release();
      require(reader.memory_bytes() == 0, "at rest it holds nothing");
    }
  }
  return transcript;
}

void read_again(const Transcript& transcript) {
  proto::OutputBuffer out;
  proto::CommandWriter writer(out);
  for (const auto& arguments : transcript.commands) {
    writer.begin(arguments.size());
    for (const std::string& argument : arguments) writer.argument(std::string_view(argument));
  }
  const Transcript again = proto::read_whole(out.to_string());
  require(again.commands == transcript.commands && !again.error, "what was read can be written and read");
}

}  // namespace
}  // namespace locksley

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley;
  fuzz::Input input(data, size);
  const Limits limits = limits_of(input.byte());
  const fuzz::Cuts cuts = fuzz::Cuts::of(input);
  const std::string_view bytes = input.rest();

  const Transcript whole = proto::read_whole(bytes, limits);
  require(read_watched(cuts.apply(bytes), limits) == whole, "however it was cut, the outcome is the same");
  constexpr std::size_t kMostByteByByte = 512;
  if (bytes.size() <= kMostByteByByte) {
    require(read_watched(proto::cut_evenly(bytes, 1), limits) == whole, "byte by byte it is the same");
  }
  read_again(whole);

  CommandReader reader(limits);
  std::size_t nth = 0;
  proto::feed(reader, bytes, [&] {
    Command command;
    while (reader.next(command) == ReadStatus::kComplete) check_list(command.arguments, nth++ % 4);
    require(command.arguments.empty(), "without a command there are no arguments");
  });
  return 0;
}
