#include "daemon/store/migration/pair_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/store/engine/key.h"

namespace locksley::daemon {
namespace {

// Kinds of rows of the index are letters.
constexpr char kFirstKind = 'a';
constexpr char kLastKind = 'z';
constexpr std::size_t kNumber = sizeof(std::uint64_t);
constexpr std::uint64_t kHighestNumber = ~std::uint64_t{0};
// A guess: it bounds how many rows one step may sort where very large batches follow very small
// ones.
constexpr std::uint64_t kMostWidth = 4096;
// After a step of so many batches without a row the next row is searched for: there may be millions
// that were forgotten. Guess.
constexpr std::uint64_t kGapWidth = 512;

std::unexpected<std::string> cannot_read(const Engine& engine, std::string_view why) {
  return std::unexpected(fmt::format("cannot read the store {}: {}", engine.place(), why));
}

std::string with_number(std::string_view prefix, std::uint64_t number) {
  return std::string(prefix).append(std::string_view(Key().append(number)));
}

// Behind every key that begins with these bytes and goes on with a number, or not.
std::string behind(std::string_view begin) { return with_number(begin, kHighestNumber) + '\xFF'; }

// One side of a step.
class Side {
 public:
  explicit Side(Engine& engine) : engine_(engine), reading_(engine, ReadingWait::kBriefly) {}

  std::expected<void, std::string> begin(const RowRange& range) {
    if (!reading_.is_valid()) return cannot_read(engine_, "it is not open");
    at_ = reading_.scan(range);
    return check();
  }
  std::expected<void, std::string> next() {
    at_->next();
    return check();
  }
  bool has_row() const { return at_->is_valid(); }
  std::string_view key() const { return at_->key(); }
  std::string_view value() const { return at_->value(); }

 private:
  // A cursor that cannot go on looks like one at its end.
  std::expected<void, std::string> check() const {
    if (const auto status = at_->status(); !status) return cannot_read(engine_, status.error().what);
    return {};
  }

  const Engine& engine_;
  const EngineReading reading_;
  std::unique_ptr<RowCursor> at_;
};

}  // namespace

PairWalk::PairWalk(Engine& source, Engine& target, Table table, std::string after)
    : source_(source),
      target_(target),
      table_(table),
      after_(std::move(after)),
      kind_(table == Table::kIndex && !after_.empty() ? after_.front() : kFirstKind),
      low_(after_.empty() ? "" : after_ + '\0') {}

std::string PairWalk::section_prefix() const {
  return table_ == Table::kIndex ? std::string(1, kind_) : std::string();
}

std::uint64_t PairWalk::number_in(std::string_view key) const {
  std::string digits(key.substr(section_->prefix.size()));
  digits.resize(kNumber, '\0');
  return key_number(digits);
}

std::expected<bool, std::string> PairWalk::look_for_last(Engine& engine) {
  const std::string last = behind(with_number(section_->prefix, kHighestNumber));
  Side side(engine);
  if (auto begun =
          side.begin({.table = table_, .low = section_->prefix, .high = section_->end, .from_at_most = last});
      !begun) {
    return std::unexpected(std::move(begun.error()));
  }
  // With no row at or below `last` there is none.
  if (!side.has_row()) return false;
  section_->last = std::max(section_->last, number_in(side.key()));
  return true;
}

PairWalk::Done PairWalk::enter_section() {
  while (!is_at_end_) {
    section_ = Section{.prefix = section_prefix(), .end = {}};
    if (table_ == Table::kIndex) section_->end = std::string(1, static_cast<char>(kind_ + 1));
    const auto in_source = look_for_last(source_);
    if (!in_source) return std::unexpected(in_source.error());
    const auto in_target = look_for_last(target_);
    if (!in_target) return std::unexpected(in_target.error());
    if (*in_source || *in_target) {
      low_number_ = low_.empty() ? 0 : number_in(low_);
      if (low_.empty()) low_ = section_->prefix;
      return {};
    }
    section_.reset();
    low_.clear();
    is_at_end_ = table_ != Table::kIndex || kind_++ == kLastKind;
  }
  return {};
}

std::expected<bool, std::string> PairWalk::visit_range(std::string_view high, const Visit& visit) {
  Side source(source_);
  Side target(target_);
  const RowRange range{.table = table_, .low = low_, .high = high};
  for (Side* const side : {&source, &target}) {
    if (auto begun = side->begin(range); !begun) return std::unexpected(std::move(begun.error()));
  }
  while (source.has_row() || target.has_row()) {
    const bool in_source = source.has_row() && (!target.has_row() || source.key() <= target.key());
    const bool in_target = target.has_row() && (!source.has_row() || target.key() <= source.key());
    PairedRow row;
    row.key = in_source ? source.key() : target.key();
    if (in_source) row.source = source.value();
    if (in_target) row.target = target.value();
    after_ = row.key;
    const bool goes_on = visit(row);
    if (!goes_on) return false;
    if (in_source) {
      if (auto moved = source.next(); !moved) return std::unexpected(std::move(moved.error()));
    }
    if (in_target) {
      if (auto moved = target.next(); !moved) return std::unexpected(std::move(moved.error()));
    }
  }
  return true;
}

PairWalk::Done PairWalk::step(const Visit& visit) {
  if (!section_) {
    if (auto entered = enter_section(); !entered) return entered;
    if (is_at_end_) return {};
  }
  // Keys without a batch: a kind alone is taken for number 0, and names of customers for any. An
  // engine may take a range of one batch for one that has no such keys, so they are read in a wider
  // range.
  const bool has_customers = table_ == Table::kIndex && kind_ == kCustomerKey;
  const bool has_names = has_customers || (table_ == Table::kIndex && low_number_ == 0);
  if (has_names) width_ = std::max<std::uint64_t>(width_, 2);
  const bool is_last = has_customers || section_->last - std::min(low_number_, section_->last) < width_;
  std::string high = section_->end;
  if (!is_last) {
    high = with_number(section_->prefix, low_number_ + width_);
  } else if (!has_names && section_->last != kHighestNumber) {
    high = with_number(section_->prefix, section_->last + 1);
  }
  const std::string before = after_;
  const auto took_all = visit_range(high, visit);
  if (!took_all) return std::unexpected(took_all.error());
  if (!*took_all) {
    low_ = after_ + '\0';
    const std::uint64_t reached = number_in(after_);
    width_ = std::clamp<std::uint64_t>(reached - low_number_, 1, kMostWidth);
    low_number_ = reached;
    return {};
  }
  if (is_last) {
    section_.reset();
    low_.clear();
    is_at_end_ = table_ != Table::kIndex || kind_++ == kLastKind;
    return {};
  }
  low_ = high;
  low_number_ += width_;
  if (after_ == before && width_ >= kGapWidth) return skip_gap();
  width_ = std::min(width_ * 2, kMostWidth);
  return {};
}

PairWalk::Done PairWalk::skip_gap() {
  // There is no row before `empty_to`, and one before `found_by`.
  std::uint64_t empty_to = low_number_;
  std::uint64_t found_by = section_->last;
  while (found_by > empty_to) {
    const std::uint64_t middle = empty_to + (found_by - empty_to) / 2;
    const std::string high = with_number(section_->prefix, middle + 1);
    const std::string last = behind(with_number(section_->prefix, middle));
    bool has_row = false;
    for (Engine* const engine : {&source_, &target_}) {
      Side side(*engine);
      const RowRange range{.table = table_, .low = low_, .high = high, .from_at_most = last};
      if (auto begun = side.begin(range); !begun) return begun;
      has_row = has_row || side.has_row();
    }
    if (has_row) {
      found_by = middle;
    } else {
      empty_to = middle + 1;
    }
  }
  low_number_ = empty_to;
  low_ = with_number(section_->prefix, empty_to);
  width_ = 1;
  return {};
}

}  // namespace locksley::daemon
