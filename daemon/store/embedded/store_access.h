// Whether this process may use the files of a store, and which errors are the system's, so that the
// files may be sound. Internal to daemon/store/embedded. Any thread; those that take a folder and
// no words block on the disk.
#pragma once

#include <rocksdb/status.h>

#include <expected>
#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// Makes the folder, which only its owner may enter, and its parents with the usual permissions.
// One that is there stays as it is.
std::expected<void, StoreRefusal> make_store_folder(const std::string& folder);

// Whether other users of the machine, beyond the folder's group, can enter this folder.
bool is_open_to_others(const std::string& folder);

// How many descriptors check_access() holds at once. RocksDB's repair has few files open at a time,
// and sets aside a table that it cannot open, even if only for lack of descriptors.
enum class Held : std::size_t { kOne = 1, kAsForRepair = 64 };

// Opens each file of the store for reading, and asks whether this process may write where it will
// have to. The error names the first file that it may not use, or cannot open for a reason other
// than its content. Changes nothing. A folder that does not exist is no error. Call it while this
// process does not have the store open.
std::expected<void, StoreRefusal> check_access(const std::string& folder, Held held);

// Whether the words are about an error of the system, such as a missing permission or too few
// descriptors. RocksDB words some of these as damage, or as wrong options.
bool is_of_the_system(std::string_view words);
// Whether that error stays until an operator has done something.
bool is_forbidden(std::string_view words);
// What an operator can do about the error: sentences, with a full stop and a space before them;
// empty: nothing is known. `folder`: of the store.
std::string advice_about(std::string_view words, const std::string& folder);

}  // namespace locksley::daemon
