#include "daemon/cli/batch_flags.h"

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "daemon/base/decimal_numbers.h"

namespace locksley::cli {
namespace {

const std::map<std::string, proto::Keep> kKeep = [] {
  std::map<std::string, proto::Keep> by_word;
  for (const proto::Keep keep : proto::kKeeps) by_word.emplace(to_string(keep), keep);
  return by_word;
}();

// Adds the option of one row of proto's table, by the kind of its value.
class BatchOptionAdder {
 public:
  BatchOptionAdder(CLI::App& group, proto::BatchOptions& batch) : group_(group), batch_(batch) {}

  void add(const proto::BatchOption& option) {
    std::visit(
        [&](const auto& value) { add("--" + std::string(option.flag), std::string(option.help), value); },
        option.value);
  }

 private:
  void add(const std::string& flag, const std::string& help, const proto::TextValue& value) {
    group_.add_option(flag, batch_.*value.member, help)->check(refuse_empty);
  }
  template <class Member>
  void add(const std::string& flag, const std::string& help, const proto::NumberValue<Member>& value) {
    group_.add_option(flag, batch_.*value.member, help)
        ->transform(daemon::decimal_numbers(static_cast<std::uint32_t>(value.least),
                                            static_cast<std::uint32_t>(value.most)));
  }
  template <class Unit>
  void add(const std::string& flag, const std::string& help, const proto::DurationValue<Unit>& value) {
    add_duration(group_, flag, batch_.*value.member, help);
  }
  void add(const std::string& flag, const std::string& help, const proto::KeepValue& value) {
    group_
        .add_option_function<std::string>(
            flag, [&keep = batch_.*value.member](const std::string& which) { keep = kKeep.at(which); }, help)
        ->check(CLI::IsMember(kKeep))
        ->type_name("WHICH");
  }
  void add(const std::string& flag, const std::string& help, const proto::FlagValue& value) {
    group_.add_flag(flag, batch_.*value.member, help);
  }
  // One id for each time that the option is given.
  void add(const std::string& flag, const std::string& help, const proto::AfterValue& value) {
    group_
        .add_option_function<std::vector<std::string>>(
            flag,
            [&after = batch_.*value.member,
             only_if_ok = value.only_if_ok](const std::vector<std::string>& ids) {
              for (const std::string& id : ids) after.push_back({id, only_if_ok});
            },
            help)
        ->allow_extra_args(false)
        ->type_name("ID");
  }

  CLI::App& group_;
  proto::BatchOptions& batch_;
};

}  // namespace

std::string refuse_empty(const std::string& text) {
  return text.empty() ? std::string("must not be empty") : std::string();
}

void add_batch_options(CLI::App& command, proto::BatchOptions& batch) {
  BatchOptionAdder adder(*command.add_option_group("Batch", "How the batch is run and kept"), batch);
  for (const proto::BatchOption& option : proto::kBatchOptions) adder.add(option);
}

}  // namespace locksley::cli
