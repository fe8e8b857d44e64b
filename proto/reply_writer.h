// The encoder of a server: replies to bytes, in RESP2 or RESP3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/output_buffer.h"

namespace locksley::proto {

// The versions of RESP, by their numbers in HELLO.
enum class Protocol : std::uint8_t { kResp2 = 2, kResp3 = 3 };

// Encodes replies at the end of an OutputBuffer, in the connection's version of the protocol. It
// uses only types that every stock client reads (+ - : $ * in RESP2; also _ % > = , in RESP3).
//
// A small value that refers to a buffer, which must outlive it; made where it is needed, used by
// the buffer's thread. Nothing blocks. An aggregate is a header that announces how many elements
// follow; the caller must write exactly that many.
class ReplyWriter {
 public:
  // Guess: longer than any error text of the daemon with its arguments.
  static constexpr std::size_t kMaxErrorBytes = 1024;

  ReplyWriter(OutputBuffer& out, Protocol protocol) : out_(&out), protocol_(protocol) {}

  Protocol protocol() const { return protocol_; }
  void set_protocol(Protocol protocol) { protocol_ = protocol; }
  OutputBuffer& buffer() const { return *out_; }

  void ok() { out_->append("+OK\r\n"); }
  // `text` contains no CR or LF, so it must not contain bytes of a peer.
  void simple(std::string_view text);
  // `text` starts with the upper-case code. It may quote bytes of a peer: control characters become
  // spaces, and the whole is cut at kMaxErrorBytes.
  void error(std::string_view text);
  void integer(std::int64_t value);
  void bulk(std::string_view bytes);
  // A number as a bulk string: its decimal digits.
  void bulk_integer(std::int64_t value);
  void null();
  // `n` elements follow.
  void array(std::size_t n);
  // `n` pairs of key and value follow. RESP2: a flat array of 2n.
  void map(std::size_t n);
  // `n` elements follow. Only for messages of channels that this connection subscribed to. RESP2:
  // an array.
  void push(std::size_t n);
  // Text for people: `=txt:` in RESP3, so that redis-cli prints it as it is. RESP2: a bulk string.
  void verbatim(std::string_view text);
  // RESP2: a bulk string of the shortest decimal that reads back as `value`.
  void real(double value);

  // One row of RESULTS, `*3 :index $status $output`.
  void result_row(std::uint64_t index, std::string_view status, std::string_view output);

 private:
  void header(char type, std::uint64_t value);

  OutputBuffer* out_;
  Protocol protocol_;
};

}  // namespace locksley::proto
