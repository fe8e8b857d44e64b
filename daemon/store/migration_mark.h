// The mark that a migration leaves in the old and in the new store, so that no daemon starts on the
// wrong one.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/key.h"

namespace locksley::daemon {

// The format of a store (kFormKey) on which no daemon may start. Programs that do not know these
// words refuse the store, too, as one of a format that they do not know.
inline constexpr std::string_view kUnfinishedCopyForm = "locksley 2, an unfinished copy of another store";
inline constexpr std::string_view kMigratedForm = "locksley 2, migrated to another store";

// The row of the mark; there is one in a store, or none. Daemons that serve do not look at it.
inline constexpr char kMigrationKey = 'x';

// A row up to which, this one included, a copy has been made; with an empty key, before the first
// row of the table.
struct CopyPosition {
  Table table = Table::kPayloads;
  std::string key;
};

// What each of the two stores knows of the migration.
struct MigrationMark {
  std::string id;       // of the migration, the same in both stores: 32 hexadecimal digits, random
  std::string other;    // the place of the other store, without a password
  std::string form;     // the format of the rows that are copied
  std::int64_t at = 0;  // when the mark was made, or the migration finished: Unix milliseconds
  CopyPosition copied;  // in the copy, while it is unfinished
};

// decode_mark(): none for bytes that are not a mark.
std::string encode(const MigrationMark& mark);
std::optional<MigrationMark> decode_mark(std::string_view bytes);

// The format of a store and its mark, if it has them.
struct MarkedForm {
  std::optional<std::string> form;
  std::optional<MigrationMark> mark;
};
// Needs: reading.is_valid(). A mark that is damaged is an error of the kind kDamaged.
std::expected<MarkedForm, EngineError> read_marked_form(const EngineReading& reading);

// Why no daemon may start on a store with this format, and the remedy: sentences. None: a migration
// does not forbid it.
std::optional<std::string> migration_forbids_start(const MarkedForm& store, std::string_view place);

}  // namespace locksley::daemon
