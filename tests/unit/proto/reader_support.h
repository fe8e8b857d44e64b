#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proto/command_reader.h"

namespace locksley::proto {

// All that a reader made of some bytes.
struct Transcript {
  std::vector<std::vector<std::string>> commands;
  std::optional<std::string> error;
  bool is_cross_protocol = false;

  friend bool operator==(const Transcript&, const Transcript&) = default;
};

// Copies all of `bytes` into `reader`, in as many pieces as its space asks for; calls `parse` after
// each.
template <typename Reader, typename Parse>
void feed(Reader& reader, std::string_view bytes, const Parse& parse) {
  while (!bytes.empty()) {
    const auto space = reader.prepare();
    const std::size_t n = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), n);
    reader.commit(n);
    bytes.remove_prefix(n);
    parse();
  }
}

inline void read_into(CommandReader& reader, std::string_view bytes, Transcript& transcript) {
  feed(reader, bytes, [&] {
    Command command;
    ReadStatus status = ReadStatus::kNeedMore;
    while ((status = reader.next(command)) == ReadStatus::kComplete) {
      auto& arguments = transcript.commands.emplace_back();
      for (std::string_view one : command.arguments) arguments.emplace_back(one);
    }
    if (status == ReadStatus::kError) {
      transcript.error = reader.error().message;
      transcript.is_cross_protocol = reader.error().kind == ProtocolError::Kind::kCrossProtocol;
    }
  });
}

// As if the bytes came in as many reads as there are pieces.
inline Transcript read_pieces(const std::vector<std::string_view>& pieces, const Limits& limits = {}) {
  CommandReader reader(limits);
  Transcript transcript;
  for (std::string_view piece : pieces) read_into(reader, piece, transcript);
  return transcript;
}

inline Transcript read_whole(std::string_view bytes, const Limits& limits = {}) {
  return read_pieces({bytes}, limits);
}

inline std::vector<std::string_view> cut_evenly(std::string_view bytes, std::size_t piece) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < bytes.size(); at += piece) pieces.push_back(bytes.substr(at, piece));
  return pieces;
}

inline std::vector<std::string_view> cut_randomly(std::string_view bytes, std::size_t longest,
                                                  std::mt19937_64& random) {
  std::vector<std::string_view> pieces;
  std::uniform_int_distribution<std::size_t> length(1, longest);
  while (!bytes.empty()) {
    pieces.push_back(bytes.substr(0, length(random)));
    bytes.remove_prefix(pieces.back().size());
  }
  return pieces;
}

}  // namespace locksley::proto
