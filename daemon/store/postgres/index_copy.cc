#include "daemon/store/postgres/index_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace locksley::daemon {
namespace {

// What lies before the value of a row.
struct Head {
  std::int64_t part;
  std::uint32_t size;  // of the value
  unsigned char kind;
};

}  // namespace

void IndexCopy::add(const RowPlace& place, std::string_view value) {
  const Head head{.part = place.part, .size = static_cast<std::uint32_t>(value.size()), .kind = place.kind};
  std::string& rows = batches_[place.batch];
  rows.reserve(rows.size() + sizeof head + value.size());
  rows.append(reinterpret_cast<const char*>(&head), sizeof head);
  rows.append(value);
}

class IndexCopyCursor final : public RowCursor {
 public:
  explicit IndexCopyCursor(std::unique_ptr<IndexCopy> copy) : copy_(std::move(copy)) { take_batch(); }

  bool is_valid() const override { return at_ < rows_.size(); }
  void next() override {
    if (++at_ == rows_.size()) return take_batch();
    name_row();
  }
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return rows_[at_].value; }
  EngineDone status() const override { return {}; }

 private:
  struct Row {
    unsigned char kind;
    std::int64_t part;
    std::string_view value;  // in bytes_
  };

  void take_batch() {
    rows_.clear();
    at_ = 0;
    if (copy_->batches_.empty()) return;
    auto taken = copy_->batches_.extract(copy_->batches_.begin());
    batch_ = taken.key();
    bytes_ = std::move(taken.mapped());
    for (std::string_view left = bytes_; !left.empty();) {
      Head head;
      std::memcpy(&head, left.data(), sizeof head);
      rows_.push_back({head.kind, head.part, left.substr(sizeof head, head.size)});
      left.remove_prefix(sizeof head + head.size);
    }
    std::ranges::sort(rows_, {}, [](const Row& row) { return std::pair(row.kind, row.part); });
    name_row();
  }
  void name_row() {
    key_ = key_of(Table::kIndex, {.kind = rows_[at_].kind, .batch = batch_, .part = rows_[at_].part});
  }

  const std::unique_ptr<IndexCopy> copy_;
  std::int64_t batch_ = 0;
  std::string bytes_;  // of that batch
  std::vector<Row> rows_;
  std::size_t at_ = 0;  // in rows_; its size: there are no more
  std::string key_;
};

std::unique_ptr<RowCursor> IndexCopy::read(std::unique_ptr<IndexCopy> copy) {
  return std::make_unique<IndexCopyCursor>(std::move(copy));
}

}  // namespace locksley::daemon
