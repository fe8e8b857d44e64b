#include "daemon/store/migration/migration.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <random>
#include <utility>

#include "core/base/job.h"
#include "daemon/base/log/log_line.h"
#include "daemon/store/migration/table_digest.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/store_form.h"

namespace locksley::daemon {
namespace {

using Kind = MigrationError::Kind;

// The index last, because a daemon reads it first.
constexpr std::array kOrder{Table::kPayloads, Table::kResults, Table::kIndex};
// Guess: how much is visited before the caller is asked whether to go on.
constexpr std::uint64_t kPassBytes = 4U << 20;
constexpr int kMostCopies = 2;

std::string_view name_of(Table table) {
  constexpr std::array<std::string_view, kTables> kNames{"index", "payloads", "results"};
  return kNames[static_cast<std::size_t>(table)];
}

std::unexpected<MigrationError> refused(std::string what) {
  return std::unexpected(MigrationError{Kind::kRefused, std::move(what)});
}
std::unexpected<MigrationError> failed(std::string what) {
  return std::unexpected(MigrationError{Kind::kFailed, std::move(what)});
}

Kind kind_of(const EngineError& error) {
  const bool is_lost = error.kind == EngineError::Kind::kFenced || error.kind == EngineError::Kind::kInUse;
  return is_lost ? Kind::kLost : Kind::kFailed;
}

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// The two rows that a migration writes itself.
bool is_of_the_migration(Table table, std::string_view key) {
  return table == Table::kIndex && key.size() == 1 &&
         (key.front() == kFormKey || key.front() == kMigrationKey);
}

std::expected<MarkedForm, MigrationError> marked_form_of(Engine& engine) {
  const EngineReading reading(engine);
  if (!reading.is_valid()) return failed(fmt::format("the store {} is not open", engine.place()));
  auto form = read_marked_form(reading);
  if (!form) return failed(fmt::format("cannot read the store {}: {}", engine.place(), form.error().what));
  return *std::move(form);
}

// Counts the rows of one side.
struct Counter {
  TableSum sum;
  TableDigest digest;

  void add(std::string_view key, std::string_view value) {
    ++sum.rows;
    sum.bytes += key.size() + value.size();
    digest.add(key, value);
  }
  TableSum total() const { return {sum.rows, sum.bytes, digest.digits()}; }
};

}  // namespace

Migration::Migration(Engine& source, Engine& target, std::shared_ptr<spdlog::logger> log, GoesOn goes_on)
    : source_(source), target_(target), log_(std::move(log)), goes_on_(std::move(goes_on)) {}

Migration::~Migration() = default;

std::expected<Migration::Outcome, MigrationError> Migration::run() {
  const auto start = determine_start();
  if (!start) return std::unexpected(start.error());
  if (*start == Start::kWhole) return Outcome::kDoneBefore;
  if (*start == Start::kNew) {
    if (auto begun = begin(); !begun) return std::unexpected(std::move(begun.error()));
  }
  LogLine(*start == Start::kNew ? "migration: begins" : "migration: goes on")
      .with("from", source_.place())
      .with("to", target_.place())
      .with("id", mark_.id)
      .with("table", name_of(mark_.copied.table))
      .with("source_bytes", source_.usage().bytes)
      .write(*log_, spdlog::level::info);
  for (int copies = 1; copies <= kMostCopies; ++copies) {
    const auto copied = copy();
    if (!copied) return std::unexpected(copied.error());
    if (!*copied) return Outcome::kStopped;
    const auto compared = compare();
    if (!compared) return std::unexpected(compared.error());
    if (*compared == Comparison::kStopped) return Outcome::kStopped;
    if (*compared == Comparison::kSame) {
      if (auto finished = finish(); !finished) return std::unexpected(std::move(finished.error()));
      return Outcome::kDone;
    }
    LogLine("migration: the source has changed since its rows were copied: what differs is copied again")
        .write(*log_, spdlog::level::warn);
    mark_.copied = {};
  }
  return std::unexpected(
      MigrationError{Kind::kDifferent, fmt::format("the store {} differs from its source {} though all rows "
                                                   "were copied: something else writes to one of them",
                                                   target_.place(), source_.place())});
}

Migration::Result<Migration::Start> Migration::determine_start() {
  const auto source = marked_form_of(source_);
  if (!source) return std::unexpected(source.error());
  const auto target = marked_form_of(target_);
  if (!target) return std::unexpected(target.error());
  if (!source->form) {
    return refused(
        fmt::format("there is nothing to migrate: no daemon has used the store {}", source_.place()));
  }
  source_is_marked_ = source->form == kMigratedForm;
  if (!source_is_marked_ && !is_readable_form(*source->form)) {
    if (const auto why = migration_forbids_start(*source, source_.place())) return refused(*why);
    return refused(fmt::format("the store {} was written by another version of Locksley (its format is '{}')",
                               source_.place(), *source->form));
  }
  const bool is_one = source->mark && target->mark && source->mark->id == target->mark->id;
  // On the way back to the folder from which the source has come, the ids are the same, too.
  if (is_one && target->form != kMigratedForm) {
    mark_ = *target->mark;
    if (target->form == kUnfinishedCopyForm) return Start::kUnfinished;
    if (source_is_marked_) return Start::kWhole;
    return refused(
        fmt::format("the migration to {} has finished before, and the store {} is of an earlier time: a copy "
                    "of it, perhaps",
                    target_.place(), source_.place()));
  }
  if (source_is_marked_) return refused(*migration_forbids_start(*source, source_.place()));
  const auto empty = is_empty(target_);
  if (!empty) return std::unexpected(empty.error());
  if (!*empty) {
    return refused(
        fmt::format("the store {} is not empty, and not a copy of {} that was begun: use an empty database "
                    "or a new folder",
                    target_.place(), source_.place()));
  }
  mark_ = {.id = random_id(),
           .other = source_.place(),
           .form = *source->form,
           .at = unix_milliseconds(),
           .copied = {}};
  return Start::kNew;
}

Migration::Result<bool> Migration::is_empty(Engine& engine) const {
  for (const Table table : kOrder) {
    PairWalk walk(engine, engine, table);
    bool is_empty = true;
    while (is_empty && !walk.is_at_end()) {
      const auto read = walk.step([&](const PairedRow&) { return is_empty = false; });
      if (!read) return failed(read.error());
    }
    if (!is_empty) return false;
  }
  return true;
}

Migration::Done Migration::commit(Engine& engine, Engine::Group& group) {
  auto done = engine.check_room(group.size_bytes());
  if (done) done = engine.commit(group, Engine::Sync::kSynced);
  if (done) return {};
  return std::unexpected(
      MigrationError{kind_of(done.error()),
                     fmt::format("cannot write to the store {}: {}", engine.place(), done.error().what)});
}

Migration::Done Migration::write_mark(Engine& engine, std::string_view form) {
  MigrationMark mark = mark_;
  if (&engine == &source_) mark.other = target_.place();
  const auto group = engine.new_group();
  group->put(Table::kIndex, Key(kFormKey), form);
  group->put(Table::kIndex, Key(kMigrationKey), encode(mark));
  return commit(engine, *group);
}

Migration::Done Migration::begin() {
  // The source first: a copy without a source that knows of it could not be gone on with.
  if (auto marked = write_mark(source_, mark_.form); !marked) return marked;
  return write_mark(target_, kUnfinishedCopyForm);
}

Migration::Result<bool> Migration::copy() {
  progress_ = {.phase = Phase::kCopying};
  // Tables before that of the position have been copied.
  const auto first = std::ranges::find(kOrder, mark_.copied.table);
  for (auto table = first; table != kOrder.end(); ++table) {
    const auto copied = copy_table(*table, table == first ? mark_.copied.key : std::string());
    if (!copied || !*copied) return copied;
  }
  return true;
}

Migration::Result<bool> Migration::copy_table(Table table, std::string after) {
  progress_.table = table;
  PairWalk walk(source_, target_, table, std::move(after));
  const auto group = target_.new_group();
  const auto is_full = [&] { return group->size_bytes() >= target_.write_ahead_bytes(); };
  for (bool goes_on = true; goes_on && !walk.is_at_end();) {
    std::uint64_t bytes = 0;
    const auto read = walk.step([&](const PairedRow& row) {
      if (is_of_the_migration(table, row.key)) return true;
      if (!row.source) {
        group->erase(table, row.key);
      } else if (row.source != row.target) {
        group->put(table, row.key, *row.source);
      }
      ++progress_.rows;
      bytes += row.key.size() + row.source.value_or("").size();
      return bytes < kPassBytes && !is_full();
    });
    if (!read) return failed(read.error());
    progress_.bytes += bytes;
    goes_on = goes_on_(progress_);
    // Also before a stop, so that the gathered rows are not lost.
    if (!group->empty() && (is_full() || walk.is_at_end() || !goes_on)) {
      if (auto written = commit_copied(*group, table, walk.after()); !written) {
        return std::unexpected(std::move(written.error()));
      }
    }
    if (!goes_on) return false;
  }
  return true;
}

Migration::Done Migration::commit_copied(Engine::Group& group, Table table, const std::string& after) {
  mark_.copied = {.table = table, .key = after};
  group.put(Table::kIndex, Key(kMigrationKey), encode(mark_));
  auto written = commit(target_, group);
  group.clear();
  return written;
}

Migration::Result<Migration::Comparison> Migration::compare() {
  LogLine("migration: all rows are copied; both stores are compared").write(*log_, spdlog::level::info);
  progress_ = {.phase = Phase::kComparing};
  for (const Table table : kOrder) {
    const auto compared = compare_table(table);
    if (!compared || *compared != Comparison::kSame) return compared;
  }
  return Comparison::kSame;
}

Migration::Result<Migration::Comparison> Migration::compare_table(Table table) {
  progress_.table = table;
  Counter in_source;
  Counter in_target;
  PairWalk walk(source_, target_, table);
  while (!walk.is_at_end()) {
    std::uint64_t bytes = 0;
    const auto read = walk.step([&](const PairedRow& row) {
      if (is_of_the_migration(table, row.key)) return true;
      if (row.source) in_source.add(row.key, *row.source);
      if (row.target) in_target.add(row.key, *row.target);
      ++progress_.rows;
      bytes += row.key.size() + row.source.value_or("").size();
      return bytes < kPassBytes;
    });
    if (!read) return failed(read.error());
    progress_.bytes += bytes;
    if (!goes_on_(progress_)) return Comparison::kStopped;
  }
  const TableSum sum = in_source.total();
  const bool is_same = sum == in_target.total();
  sums_[static_cast<std::size_t>(table)] = sum;
  LogLine(is_same ? "migration: a table is the same in both stores" : "migration: a table differs")
      .with("table", name_of(table))
      .with("rows", sum.rows)
      .with("bytes", sum.bytes)
      .with("digest", sum.digest)
      .write(*log_, is_same ? spdlog::level::info : spdlog::level::warn);
  return is_same ? Comparison::kSame : Comparison::kDifferent;
}

Migration::Done Migration::finish() {
  mark_.at = unix_milliseconds();
  mark_.copied = {};
  // Between the two, no daemon can start on either. The other way round, one could on each.
  if (auto marked = write_mark(source_, kMigratedForm); !marked) return marked;
  return write_mark(target_, mark_.form);
}

std::expected<void, std::string> undo_migration(Engine& engine) {
  const auto store = marked_form_of(engine);
  if (!store) return std::unexpected(store.error().what);
  if (store->form != kMigratedForm || !store->mark) {
    return std::unexpected(fmt::format(
        "the store {} was not migrated to another one: there is nothing to undo", engine.place()));
  }
  const auto group = engine.new_group();
  group->put(Table::kIndex, Key(kFormKey), store->mark->form);
  group->erase(Table::kIndex, Key(kMigrationKey));
  if (const auto written = engine.commit(*group, Engine::Sync::kSynced); !written) {
    return std::unexpected(
        fmt::format("cannot write to the store {}: {}", engine.place(), written.error().what));
  }
  return {};
}

}  // namespace locksley::daemon
