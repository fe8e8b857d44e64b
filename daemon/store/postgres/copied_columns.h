// Takes a row of PostgreSQL's binary COPY apart. Internal to daemon/store/postgres, without libpq.
// One thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace locksley::daemon {

// The columns of one row of `COPY … TO STDOUT (FORMAT binary)`, which are taken one after the
// other. That format has a header before the first row; then each row is the number of its columns,
// and the size and the bytes of each; and the end is a row of -1 columns.
//
// On the stack, beside the row. Bytes that are no such row are a broken contract of the server,
// which ends the process.
class CopiedColumns {
 public:
  // `row`: as the server sent it, which outlives this. `is_first`: the header is before it.
  CopiedColumns(std::string_view row, bool is_first);

  // It is not a row, but the end.
  bool is_end() const { return is_end_; }
  // The next column: its bytes, or the number that they are. Needs: it is not null.
  std::string_view take();
  std::int64_t take_number();

 private:
  std::string_view left_;
  bool is_end_;
};

}  // namespace locksley::daemon
