// The rows that a store has once: its format, and from which batch on results that are not ok have
// marks.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <string_view>

#include "daemon/base/log/log_line.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/migration_mark.h"
#include "daemon/store/store.h"
#include "daemon/store/store_form.h"

namespace locksley::daemon {
namespace {

// The format of the rows. A store of another format is refused.
constexpr std::string_view kForm = "locksley 2";
// Every row of this format is one of kForm, too: it lacks rows with others inside (split_row()) and
// patterns in rows of their own, which its programs cannot read. So a store of this format gets
// kForm before anything else is written.
constexpr std::string_view kEarlierForm = "locksley 1";

}  // namespace

bool is_readable_form(std::string_view form) { return form == kForm || form == kEarlierForm; }

StoreRefusal Store::cannot_open(const EngineError& error) const {
  if (error.kind == EngineError::Kind::kDamaged) return damaged(error.what, Engine::Damage::kUnreadable);
  return {fmt::format("cannot open the store {}: {}", engine_->place(), error.what)};
}

StoreRefusal Store::damaged(std::string_view what, Engine::Damage damage) const {
  return {.what = fmt::format("the store {} is damaged, so nothing was started: {}. {}", engine_->place(),
                              what, engine_->remedy(damage)),
          .lasts = true};
}

StoreRefusal Store::cannot_read(std::string_view where, const EngineError& error) const {
  const std::string what = fmt::format("{}{}", where, error.what);
  switch (error.kind) {
    case EngineError::Kind::kDamaged:
      return damaged(what, Engine::Damage::kUnreadable);
    case EngineError::Kind::kAway:
      return {fmt::format(
          "the store {} was away while it was read, so nothing was started: {}. Nothing is lost: start the "
          "daemon again once "
          "it can be reached",
          engine_->place(), what)};
    default:
      return {fmt::format(
          "the store {} cannot be read, so nothing was started: {}. That is an error of the system, which "
          "says nothing about what the store contains: start the daemon again once it has passed",
          engine_->place(), what)};
  }
}

std::expected<void, StoreRefusal> Store::check_form() {
  std::string form;
  bool is_new = false;
  {
    const EngineReading reading(*engine_);
    const auto found = reading.get(Table::kIndex, Key(kFormKey), form);
    if (!found) return std::unexpected(cannot_open(found.error()));
    is_new = !*found;
    if (!is_new && form == kForm) return {};
    if (!is_new && !is_readable_form(form)) {
      const auto marked = read_marked_form(reading);
      if (!marked) return std::unexpected(cannot_open(marked.error()));
      if (auto why = migration_forbids_start(*marked, engine_->place()))
        return std::unexpected(StoreRefusal{.what = *std::move(why), .lasts = true});
      return std::unexpected(StoreRefusal{
          .what =
              fmt::format("the store {} was written by another version of Locksley (its format is '{}', this "
                          "version's is '{}'): use that version, or another store",
                          engine_->place(), form, kForm),
          .lasts = true});
    }
  }
  if (auto written = write_once(kFormKey, kForm, Engine::Sync::kSynced); !written) return written;
  if (!is_new) {
    LogLine("store: upgraded: earlier versions can no longer read it")
        .with("store", engine_->place())
        .with("format", kForm)
        .with("format_before", form)
        .write(*log_, spdlog::level::info);
  }
  return {};
}

std::expected<void, StoreRefusal> Store::read_first_marked() {
  {
    const EngineReading reading(*engine_);
    std::string bytes;
    const auto found = reading.get(Table::kIndex, Key(kFirstMarkedKey), bytes);
    if (!found) return std::unexpected(cannot_open(found.error()));
    if (*found && bytes.size() == sizeof(std::uint64_t)) first_marked_ = key_number(bytes);
    if (*found) return {};
    // Marks begin after the existing batches.
    const auto last = reading.scan({.table = Table::kIndex,
                                    .low = Key(kAcceptedKey),
                                    .high = Key(kAcceptedKey + 1),
                                    .from_at_most = row_key(kAcceptedKey, ~std::uint64_t{0})});
    if (last->is_valid()) first_marked_ = last_number(last->key()) + 1;
    if (const auto read = last->status(); !read) return std::unexpected(cannot_open(read.error()));
  }
  // If a crash loses the row, the next start writes it again, with a larger number, which is as
  // right.
  return write_once(kFirstMarkedKey, Key().append(first_marked_), Engine::Sync::kWritten);
}

std::expected<void, StoreRefusal> Store::write_once(char key, std::string_view value, Engine::Sync sync) {
  const ThreadRoleScope role(kStoreWriter);
  const auto group = engine_->new_group();
  group->put(Table::kIndex, Key(key), value);
  if (const auto written = engine_->commit(*group, sync); !written) {
    return std::unexpected(cannot_open(written.error()));
  }
  return {};
}

}  // namespace locksley::daemon
