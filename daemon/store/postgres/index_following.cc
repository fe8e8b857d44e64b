#include "daemon/store/postgres/index_following.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/store/postgres/change_lists.h"
#include "daemon/store/postgres/copied_columns.h"
#include "daemon/store/postgres/membership.h"
#include "daemon/store/postgres/reading.h"
#include "daemon/store/postgres/schema.h"

namespace locksley::daemon {
namespace {

// The whole index is read from its beginning to its end; single batches are found by their keys,
// whatever the server thinks of the size of the table.
constexpr auto kSettings =
    "set jit = off; set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan = off";
constexpr auto kForAll = "set enable_seqscan = on";
constexpr auto kForBatches = "set enable_seqscan = off";

// A comma between two kinds, and quotes around each.
std::string quoted(std::string_view kinds) {
  std::string list;
  for (const char kind : kinds) list += fmt::format("{}'{}'", list.empty() ? "" : ",", kind);
  return list;
}

}  // namespace

IndexFollowing::IndexFollowing(PrimaryFinder& primary, std::int32_t own, std::string session,
                               std::string kinds, spdlog::logger& log, Pauses pauses)
    : primary_(primary),
      own_(own),
      session_(std::move(session)),
      kinds_(std::move(kinds)),
      log_(log),
      pauses_(pauses) {}

void IndexFollowing::catch_up() {
  if (now() < paused_until_) return;
  const auto advanced = advance();
  if (advanced) return;
  connection_.reset();
  give_up(advanced.error().error.what, pauses_.after_loss);
}

std::optional<std::uint64_t> IndexFollowing::batches() const {
  if (copy_ == nullptr) return std::nullopt;
  return copy_->batches();
}

PgExpected<void> IndexFollowing::connect() {
  auto opened = primary_.connect(session_, PrimaryFinder::Look::kAll);
  if (!opened) return std::unexpected(opened.error());
  if (const auto set = (*opened)->run(kSettings, now() + kPatience); !set)
    return std::unexpected(set.error());
  const auto has_lists = has_changes(**opened, now() + kPatience);
  if (!has_lists) return std::unexpected(has_lists.error());
  if (!*has_lists) return std::unexpected(PgError::failed("there is no table for lists of changed batches"));
  connection_ = std::move(*opened);
  return {};
}

PgExpected<void> IndexFollowing::advance() {
  if (connection_ == nullptr) {
    if (auto connected = connect(); !connected) return connected;
  }
  if (primary_.is_outdated(*connection_))
    return std::unexpected(PgError::failed("another server was promoted"));
  const auto rows = read_nodes(*connection_, now() + kPatience);
  if (!rows) return std::unexpected(rows.error());
  const auto active = std::ranges::find_if(*rows, &NodeRow::is_alive);
  // Between two daemons, or this one has taken over: the rest is for finish().
  if (active == rows->end() || active->node == own_) return {};
  if (active->node != active_) begin(*active, *rows);
  if (has_new_active(*rows)) return std::unexpected(PgError::failed("another daemon was active"));
  if (copy_ == nullptr) return read_all(active->committed);
  const auto read = read_lists(active->committed);
  if (!read) return std::unexpected(read.error());
  if (!*read) {
    has_missed_ = true;
    give_up("the list of the batches that a group has changed is missing", pauses_.after_loss);
    return {};
  }
  if (has_changed_too_much()) {
    give_up("too many of the batches change", pauses_.if_busy);
    return {};
  }
  return changed_.size() > kMostChanged ? read_batches(kReadAtOnce) : PgExpected<void>();
}

void IndexFollowing::begin(const NodeRow& active, const std::vector<NodeRow>& rows) {
  active_ = active.node;
  were_active_.clear();
  for (const NodeRow& row : rows) {
    if (row.committed != kNeverActive) were_active_.insert(row.node);
  }
  copy_.reset();
  changed_.clear();
  has_missed_ = false;
  seen_.reset();
}

bool IndexFollowing::has_new_active(const std::vector<NodeRow>& rows) const {
  return std::ranges::any_of(rows, [&](const NodeRow& row) {
    return row.committed != kNeverActive && row.node != own_ && !were_active_.contains(row.node);
  });
}

PgExpected<bool> IndexFollowing::is_listed(std::int64_t committed) {
  const auto found = query("select count(*) from locksley_change where node = $1 and number = $2",
                           {Parameter::int4(active_), Parameter::int8(committed)});
  if (!found) return std::unexpected(found.error());
  return int8_of(**found, 0, 0) != 0;
}

PgExpected<void> IndexFollowing::read_all(std::int64_t committed) {
  const bool is_idle = std::exchange(seen_, committed) == committed;
  if (committed != 0) {
    const auto listed = is_listed(committed);
    if (!listed) return std::unexpected(listed.error());
    if (!*listed && (has_missed_ || !is_idle)) return {};
  }
  const Instant began = now();
  if (const auto set = connection_->run(kForAll, now() + kPatience); !set)
    return std::unexpected(set.error());
  const std::string sql = fmt::format(
      "copy (select kind, batch, part, value from {} where kind in ({})) to stdout (format binary)",
      name_of(Table::kIndex), quoted(kinds_));
  if (auto asked = connection_->ask_copy(sql); !asked) return asked;
  if (auto begun = connection_->begin_copy_out(now() + kPatience); !begun) return begun;
  auto copy = std::make_unique<IndexCopy>(kinds_);
  for (bool is_first = true;; is_first = false) {
    if (is_stopping_)
      return std::unexpected(PgError::failed("the copy was stopped before all of the index was read"));
    const auto row = connection_->copy_row(now() + kPatience);
    if (!row) return std::unexpected(row.error());
    if (row->empty()) break;
    CopiedColumns columns(row->bytes(), is_first);
    if (columns.is_end()) continue;
    const auto kind = static_cast<unsigned char>(columns.take().front());
    const std::int64_t batch = columns.take_number();
    const std::int64_t part = columns.take_number();
    copy->add({.kind = kind, .batch = batch, .part = part}, columns.take());
  }
  if (const auto set = connection_->run(kForBatches, now() + kPatience); !set)
    return std::unexpected(set.error());
  copy_ = std::move(copy);
  number_ = committed;
  changed_.clear();
  LogLine("store: this daemon follows the index of the active one")
      .with("active", active_)
      .with("batches", copy_->batches())
      .with("took_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count())
      .write(log_, spdlog::level::info);
  return {};
}

IndexFollowing::StillGood IndexFollowing::read_lists(std::int64_t committed) {
  for (;;) {
    const std::int64_t last = number_ + kListsAtOnce;
    const auto rows = query(
        "select number, coalesce(batch, 0) from locksley_change left join lateral unnest(batches) batch "
        "on true where node = $1 and number > $2 and number <= $3 order by number",
        {Parameter::int4(active_), Parameter::int8(number_), Parameter::int8(last)});
    if (!rows) return std::unexpected(rows.error());
    for (int row = 0; row < PQntuples(rows->get()); ++row) {
      const std::int64_t number = int8_of(**rows, row, 0);
      const std::int64_t batch = int8_of(**rows, row, 1);
      if (number > number_ + 1 || batch == ChangeList::kOthers) return false;
      number_ = number;
      if (batch != 0) changed_.insert(batch);
    }
    if (number_ < last) return number_ >= committed;
  }
}

PgExpected<void> IndexFollowing::read_batches(std::size_t most) {
  auto begin = changed_.lower_bound(next_);
  if (begin == changed_.end()) begin = changed_.begin();
  auto end = begin;
  ArrayParameter batches = ArrayParameter::of_int8();
  for (; most != 0 && end != changed_.end(); --most) batches.add(*end++);
  next_ = end == changed_.end() ? 0 : *end;
  const auto rows = query(
      fmt::format("select i.kind, i.batch, i.part, i.value from unnest($1::bigint[]) r(batch) join {} i "
                  "on i.shard = (r.batch & {})::int and i.batch = r.batch and i.kind in ({})",
                  name_of(Table::kIndex), kShards - 1, quoted(kinds_)),
      {batches.take()});
  if (!rows) return std::unexpected(rows.error());
  std::for_each(begin, end, [&](std::int64_t batch) { copy_->forget(batch); });
  changed_.erase(begin, end);
  for (int row = 0; row < PQntuples(rows->get()); ++row) {
    copy_->add({.kind = static_cast<unsigned char>(bytes_of(**rows, row, 0).front()),
                .batch = int8_of(**rows, row, 1),
                .part = int8_of(**rows, row, 2)},
               bytes_of(**rows, row, 3));
  }
  return {};
}

std::unique_ptr<IndexCopy> IndexFollowing::finish() {
  if (copy_ == nullptr) return nullptr;
  const Instant began = now();
  const auto read = read_rest();
  if (!read || !*read) {
    give_up(
        read ? "what was read is not the last state, or too much of it has changed" : read.error().error.what,
        pauses_.after_loss);
    return nullptr;
  }
  LogLine("store: the index was followed: only what had changed last was read")
      .with("batches", copy_->batches())
      .with("took_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count())
      .write(log_, spdlog::level::info);
  return std::move(copy_);
}

IndexFollowing::StillGood IndexFollowing::read_rest() {
  if (primary_.is_outdated(*connection_)) return false;
  const auto rows = read_nodes(*connection_, now() + kPatience);
  if (!rows) return std::unexpected(rows.error());
  const auto row_of = [&](std::int32_t node) { return std::ranges::find(*rows, node, &NodeRow::node); };
  const auto former = row_of(active_);
  const auto self = row_of(own_);
  if (self == rows->end() || !self->is_alive || self->epoch() == 0 || former == rows->end() ||
      former->is_alive || has_new_active(*rows)) {
    return false;
  }
  if (const auto read = read_lists(former->committed); !read || !*read) return read;
  if (has_changed_too_much()) return false;
  while (!changed_.empty()) {
    if (const auto read = read_batches(kReadAtOnce); !read) return std::unexpected(read.error());
  }
  return true;
}

bool IndexFollowing::has_changed_too_much() const {
  return changed_.size() > kMostChanged + copy_->batches() / kMostShare;
}

void IndexFollowing::give_up(std::string_view why, std::chrono::milliseconds pause) {
  if (copy_ != nullptr) {
    LogLine("store: the index is not followed any more: a takeover reads all of it")
        .with("reason", why)
        .write(log_, spdlog::level::info);
  }
  copy_.reset();
  changed_.clear();
  paused_until_ = now() + pause;
}

}  // namespace locksley::daemon
