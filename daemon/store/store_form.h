// The formats of a store's rows. Any thread; nothing blocks.
#pragma once

#include <string_view>

namespace locksley::daemon {

// Whether this version can open a store of this format (the row kFormKey), upgrading it if need be.
bool is_readable_form(std::string_view form);

}  // namespace locksley::daemon
