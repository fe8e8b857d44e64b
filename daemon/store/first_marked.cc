// From which batch on the store has marks for results that are not ok.
#include <memory>
#include <string>
#include <string_view>

#include "daemon/store/codec.h"
#include "daemon/store/database.h"
#include "daemon/store/rows.h"

namespace locksley::daemon {
namespace {

constexpr std::string_view kFirstMarkedKey = "n";

}  // namespace

rocksdb::Status Database::read_first_marked() {
  std::string bytes;
  const rocksdb::Status read = files_.db->Get({}, index(), kFirstMarkedKey, &bytes);
  if (read.ok() && bytes.size() == sizeof(std::uint64_t)) first_marked_ = key_number(bytes);
  if (!read.IsNotFound()) return read;
  first_marked_ = 0;
  // The batches that there are.
  const std::unique_ptr<rocksdb::Iterator> at(files_.db->NewIterator({}, index()));
  at->SeekForPrev(row_key(kAcceptedKey, ~std::uint64_t{0}));
  if (at->Valid() && at->key()[0] == kAcceptedKey) {
    first_marked_ = key_number(at->key().ToStringView().substr(1)) + 1;
  }
  if (!at->status().ok()) return at->status();
  std::string number;
  append_key_number(number, first_marked_);
  // Lost in a crash, it is written again: with a larger number, which is as right.
  return files_.db->Put({}, index(), kFirstMarkedKey, number);
}

}  // namespace locksley::daemon
