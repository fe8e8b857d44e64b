#include "daemon/server/commands/audit_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
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

// The word of the command that a line shows besides the name, and the member for it.
struct Subject {
  std::string Audit::Entry::* member;
  std::size_t word;
};
constexpr Subject kNothing{nullptr, 0};
constexpr Subject kBatch{&Audit::Entry::batch, 1};
constexpr Subject kFolder{&Audit::Entry::backup, 1};
constexpr Subject kHandler{&Audit::Entry::handler, 2};
constexpr Subject kCustomer{&Audit::Entry::customer, 2};
constexpr Subject kSettings{&Audit::Entry::keys, 2};  // and every second word after it

// The subcommands that have a line, because they change something.
constexpr std::array kSubcommands = std::to_array<std::pair<SubcommandId, Subject>>({
    {SubcommandId::kClientKill, kNothing},
    {SubcommandId::kConfigReload, kNothing},
    {SubcommandId::kConfigSet, kSettings},
    {SubcommandId::kCustomerDel, kCustomer},
    {SubcommandId::kCustomerSet, kCustomer},
    {SubcommandId::kHandlerRestart, kHandler},
});

// Whether a subcommand of this command has a line. Called before each command, so it does not
// search the table.
bool has_subcommand_with_line(CommandId id) {
  return id == CommandId::kClient || id == CommandId::kConfig || id == CommandId::kCustomer ||
         id == CommandId::kHandler;
}

// For a command that has a line itself.
const Subject& subject_of(CommandId id) {
  const bool makes_a_batch = id == CommandId::kOpen || id == CommandId::kRun || id == CommandId::kSubmit;
  if (makes_a_batch) return kNothing;  // its first word is the handler
  return id == CommandId::kBackup ? kFolder : kBatch;
}

// Null: the subcommand has no line.
const Subject* subject_of(const proto::SubcommandSpec& subcommand) {
  for (const auto& [id, subject] : kSubcommands) {
    if (id == subcommand.id) return &subject;
  }
  return nullptr;
}

// Null: there is none.
const proto::SubcommandSpec* named_subcommand(const proto::ArgumentList& arguments, CommandId id) {
  return arguments.size() < 2 ? nullptr : proto::find_subcommand(id, arguments[1]);
}

// Whether a word may be logged: it looks like a key, so it is not a value in the wrong place.
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

void write_subject(Audit::Entry& entry, const Subject& subject, const proto::ArgumentList& arguments) {
  if (subject.member == nullptr || arguments.size() <= subject.word) return;
  entry.*subject.member = subject.member == &Audit::Entry::keys
                              ? keys_of(arguments)
                              : std::string(arguments[subject.word].substr(0, LogLine::kMostValueBytes));
}

}  // namespace

void begin_audit_line(Session& session, const proto::Command& command, const proto::CommandSpec& spec) {
  const bool has_line = (spec.flags & proto::kWrite) != 0 || spec.id == CommandId::kBackup;
  if ((!has_line && !has_subcommand_with_line(spec.id)) || !session.is_logged_in()) return;
  const proto::SubcommandSpec* const subcommand =
      has_line ? nullptr : named_subcommand(command.arguments, spec.id);
  if (!has_line && subcommand == nullptr) return;
  const Subject* const subject = has_line ? &subject_of(spec.id) : subject_of(*subcommand);
  if (subject == nullptr) return;
  const auto kind =
      spec.group == proto::CommandGroup::kSubmit ? Audit::Kind::kSubmission : Audit::Kind::kOther;
  auto entry = session.state().audit().begin(session.user(), session.peer(), kind);
  if (entry == nullptr) return;
  entry->command = in_capitals(has_line ? std::string(spec.name) : proto::full_name(*subcommand));
  write_subject(*entry, *subject, command.arguments);
  session.replies().audit_entry() = std::move(entry);
}

void end_audit_line(Session& session) {
  const std::unique_ptr<Audit::Entry> entry = std::exchange(session.replies().audit_entry(), nullptr);
  if (entry == nullptr) return;
  if (entry->outcome.empty() && session.is_dropped()) entry->outcome = "GONE";
  session.state().audit().write(*entry);
}

}  // namespace locksley::daemon
