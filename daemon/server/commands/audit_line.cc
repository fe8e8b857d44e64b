#include "daemon/server/commands/audit_line.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/keys.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {
namespace {

using proto::CommandId;
using proto::SubcommandId;

constexpr std::size_t kMostKeys = 256;  // bytes of the keys of one CONFIG SET

std::string in_capitals(std::string name) {
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (c == '|') c = ' ';
  }
  return name;
}

bool is_about_customer(SubcommandId id) {
  return id == SubcommandId::kCustomerSet || id == SubcommandId::kCustomerDel;
}

// The subcommand, if it changes something.
const proto::SubcommandSpec* changing_subcommand(const proto::Command& command, CommandId id) {
  if (command.arguments.size() < 2) return nullptr;
  const proto::SubcommandSpec* const found = proto::find_subcommand(id, command.arguments[1]);
  if (found == nullptr) return nullptr;
  const bool changes = found->id == SubcommandId::kConfigSet || found->id == SubcommandId::kConfigReload ||
                       found->id == SubcommandId::kClientKill || found->id == SubcommandId::kHandlerRestart ||
                       is_about_customer(found->id);
  return changes ? found : nullptr;
}

// Whether a word may be written out: it looks like a key, so it is no value that came to the wrong
// place.
bool looks_like_key(std::string_view word) {
  static const std::vector<std::string> kKeys = config::all_keys();
  const auto section_of = [](std::string_view key) { return key.substr(0, key.find('.')); };
  const bool is_plain =
      word.size() <= kMostKeys && std::ranges::all_of(word, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
      });
  return is_plain && std::ranges::find(kKeys, section_of(word), section_of) != kKeys.end();
}

std::string keys_of(const proto::ArgumentList& arguments) {
  std::string keys;
  for (std::size_t i = 2; i < arguments.size() && keys.size() < kMostKeys; i += 2) {
    if (!keys.empty()) keys += ' ';
    keys += looks_like_key(arguments[i]) ? arguments[i].substr(0, kMostKeys) : "?";
  }
  return keys;
}

// Whether the first argument is the id of a batch; else it is a handler.
bool names_a_batch(CommandId id) {
  return id != CommandId::kSubmit && id != CommandId::kOpen && id != CommandId::kRun;
}

}  // namespace

void begin_audit_line(Session& session, const proto::Command& command, const proto::CommandSpec& spec) {
  const bool may_change = (spec.flags & proto::kWrite) != 0 || spec.id == CommandId::kBackup;
  const bool has_changing_subcommand = spec.id == CommandId::kConfig || spec.id == CommandId::kClient ||
                                       spec.id == CommandId::kHandler || spec.id == CommandId::kCustomer;
  if ((!may_change && !has_changing_subcommand) || !session.is_logged_in()) return;
  const proto::SubcommandSpec* const subcommand =
      may_change ? nullptr : changing_subcommand(command, spec.id);
  if (!may_change && subcommand == nullptr) return;
  const auto kind =
      spec.group == proto::CommandGroup::kSubmit ? Audit::Kind::kSubmission : Audit::Kind::kOther;
  auto entry = session.state().audit().begin(session.user(), session.peer(), kind);
  if (entry == nullptr) return;
  entry->command =
      in_capitals(subcommand == nullptr ? std::string(spec.name) : proto::full_name(*subcommand));
  const proto::ArgumentList& arguments = command.arguments;
  if (subcommand != nullptr && subcommand->id == SubcommandId::kConfigSet) {
    entry->keys = keys_of(arguments);
  } else if (subcommand != nullptr && subcommand->id == SubcommandId::kHandlerRestart) {
    if (arguments.size() > 2) entry->handler = arguments[2].substr(0, LogLine::kMostValueBytes);
  } else if (subcommand != nullptr && is_about_customer(subcommand->id)) {
    if (arguments.size() > 2) entry->customer = arguments[2].substr(0, LogLine::kMostValueBytes);
  } else if (spec.id == CommandId::kBackup) {
    if (arguments.size() > 1) entry->backup = arguments[1].substr(0, LogLine::kMostValueBytes);
  } else if (subcommand == nullptr && arguments.size() > 1 && names_a_batch(spec.id)) {
    entry->batch = arguments[1].substr(0, LogLine::kMostValueBytes);
  }
  session.audit_entry() = std::move(entry);
}

void end_audit_line(Session& session) {
  const std::unique_ptr<Audit::Entry> entry = std::exchange(session.audit_entry(), nullptr);
  if (entry == nullptr) return;
  if (entry->outcome.empty() && session.is_dropped()) entry->outcome = "GONE";
  session.state().audit().write(*entry);
}

}  // namespace locksley::daemon
