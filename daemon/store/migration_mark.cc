#include "daemon/store/migration_mark.h"

#include <fmt/format.h>
#include <time.h>

#include <array>
#include <ctime>

#include "daemon/store/rows/codec.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {
namespace {

std::string utc(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "an unknown time";
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text.data(), size};
}

}  // namespace

std::string encode(const MigrationMark& mark) {
  std::string bytes;
  Encoder out(bytes);
  out.text(mark.id);
  out.text(mark.other);
  out.text(mark.form);
  out.signed_number(mark.at);
  out.number(static_cast<std::uint64_t>(mark.copied.table));
  out.text(mark.copied.key);
  return bytes;
}

std::optional<MigrationMark> decode_mark(std::string_view bytes) {
  Decoder in(bytes);
  MigrationMark mark;
  mark.id = in.text();
  mark.other = in.text();
  mark.form = in.text();
  mark.at = in.signed_number();
  mark.copied.table = static_cast<Table>(in.number_below(kTables));
  mark.copied.key = in.text();
  if (in.is_damaged()) return std::nullopt;
  return mark;
}

std::expected<MarkedForm, EngineError> read_marked_form(const EngineReading& reading) {
  MarkedForm store;
  std::string bytes;
  const auto has_form = reading.get(Table::kIndex, Key(kFormKey), bytes);
  if (!has_form) return std::unexpected(has_form.error());
  if (*has_form) store.form = bytes;
  const auto has_mark = reading.get(Table::kIndex, Key(kMigrationKey), bytes);
  if (!has_mark) return std::unexpected(has_mark.error());
  if (!*has_mark) return store;
  store.mark = decode_mark(bytes);
  if (!store.mark) {
    return std::unexpected(EngineError{EngineError::Kind::kDamaged, "the mark of a migration is damaged"});
  }
  return store;
}

std::optional<std::string> migration_forbids_start(const MarkedForm& store, std::string_view place) {
  const std::string other = store.mark ? store.mark->other : "another store";
  const std::string at = utc(store.mark ? store.mark->at : 0);
  if (store.form == kUnfinishedCopyForm) {
    return fmt::format(
        "the store {} is an unfinished copy of {}, begun at {}. Run `locksleyd --migrate-to` again with the "
        "configuration of {}, until it says that the migration has finished; or start the daemon on that "
        "store, and empty this one",
        place, other, at, other);
  }
  if (store.form == kMigratedForm) {
    return fmt::format(
        "the store {} was migrated to {} at {}; what was accepted since is there. Start the daemon on that "
        "store; if that is refused as an unfinished copy, run `locksleyd --migrate-to` again. To go back "
        "with "
        "all that is there now, migrate that store to a new folder. Or `locksleyd --undo-migration` with "
        "this "
        "configuration makes this store usable again as it was at that time: it lacks what the other one has "
        "accepted since, and jobs that have run there run again",
        place, other, at);
  }
  return std::nullopt;
}

}  // namespace locksley::daemon
