// How the options of a command become the options of a batch in core, and which of these the store
// writes in which order. These lists and proto's table of options (proto/batch_options.h) are the
// only lists of options in the daemon.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "core/batch/batch.h"
#include "proto/batch_options.h"

namespace locksley::daemon {

// One member of core's options. `wire` points to the member of proto::BatchOptions that it comes
// from; nullptr: no option of a command sets it.
template <class Wire, class Core>
struct OptionField {
  Wire wire;
  Core core;
};

// In the order of the store's row, which must not change: existing stores have it. So these lists
// cannot follow from proto's table, whose order is that of the documentation and may change. The
// checks below fail if an option of that table is missing here.
inline constexpr std::tuple kOptionFields{
    OptionField{&proto::BatchOptions::id, &BatchOptions::id},
    OptionField{&proto::BatchOptions::name, &BatchOptions::name},
    OptionField{nullptr, &BatchOptions::tenant},
    OptionField{&proto::BatchOptions::trace, &BatchOptions::trace},
    OptionField{&proto::BatchOptions::weight, &BatchOptions::weight},
    OptionField{&proto::BatchOptions::slots, &BatchOptions::slots},
    OptionField{&proto::BatchOptions::max_fails, &BatchOptions::max_fails},
    OptionField{&proto::BatchOptions::timeout, &BatchOptions::timeout},
    OptionField{&proto::BatchOptions::keep, &BatchOptions::keep},
};
// Options that came after the first version of the row. They stand at its end (rows.cc).
inline constexpr std::tuple kLaterOptionFields{
    OptionField{&proto::BatchOptions::retries, &BatchOptions::retries},
};

// Options that came with customers as a level of fairness. They stand after all other fields of the
// row.
inline constexpr std::tuple kCustomerOptionFields{
    OptionField{&proto::BatchOptions::customer, &BatchOptions::customer},
};

constexpr void for_each_option_field(const auto& visit) {
  const auto visit_all = [&](const auto&... field) { (visit(field), ...); };
  std::apply(visit_all, kOptionFields);
  std::apply(visit_all, kLaterOptionFields);
  std::apply(visit_all, kCustomerOptionFields);
}

namespace internal {

// Options that are no member of core's options: AcceptedRow has them as times, as references to
// other batches, or, EPHEMERAL, not at all.
inline constexpr std::string_view kOtherOptions[] = {"DEADLINE", "DELAY",  "AFTER",
                                                     "AFTEROK",  "RETAIN", "EPHEMERAL"};

constexpr bool has_field(const proto::BatchOption& option) {
  bool found = false;
  std::visit(
      [&](const auto& value) {
        for_each_option_field([&](const auto& field) {
          if constexpr (std::is_same_v<decltype(field.wire), decltype(value.member)>) {
            found = found || field.wire == value.member;
          }
        });
      },
      option.value);
  return found;
}
constexpr bool is_other(const proto::BatchOption& option) {
  return std::ranges::find(kOtherOptions, option.name) != std::end(kOtherOptions);
}
static_assert(std::ranges::all_of(proto::kBatchOptions,
                                  [](const auto& option) { return has_field(option) != is_other(option); }),
              "each option of proto's table is a field of core's options or is listed in kOtherOptions");

static_assert(static_cast<int>(proto::Keep::kAll) == static_cast<int>(Keep::kAll) &&
              static_cast<int>(proto::Keep::kFailures) == static_cast<int>(Keep::kFailures) &&
              static_cast<int>(proto::Keep::kNone) == static_cast<int>(Keep::kNone));

template <class Core, class Wire>
void assign(Core& to, const Wire& from) {
  to = static_cast<Core>(from);
}
template <class Core, class Wire>
void assign(Core& to, const std::optional<Wire>& from) {
  if (from) to = *from;
}
inline void assign(std::string& to, const std::string& from) { to = from; }

}  // namespace internal

// Sets in `to` the options that `from` has. An option that is absent in `from` leaves its member as
// it is.
inline void assign_options(const proto::BatchOptions& from, BatchOptions& to) {
  for_each_option_field([&](const auto& field) {
    if constexpr (!std::is_null_pointer_v<decltype(field.wire)>) {
      internal::assign(to.*field.core, from.*field.wire);
    }
  });
}

}  // namespace locksley::daemon
