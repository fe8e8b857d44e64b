#include "proto/batch_options.h"

#include <algorithm>

#include "proto/name_table.h"

namespace locksley::proto {
namespace {

constexpr auto kOptionNames = name_table(kBatchOptions);

// Whether the text has this number.
constexpr bool has_number(std::string_view text, std::uint64_t number) {
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    std::uint64_t found = 0;
    for (const char digit : text.substr(0, digits))
      found = found * 10 + static_cast<std::uint64_t>(digit - '0');
    if (digits != 0 && found == number) return true;
    text.remove_prefix(std::max<std::size_t>(digits, 1));
  }
  return false;
}
constexpr const BatchOption& option_of(std::string_view name) {
  return *std::ranges::find(kBatchOptions, name, &BatchOption::name);
}
static_assert(has_number(internal::kIdExpected, BatchOptions::kMaxIdBytes) &&
                  has_number(internal::kCustomerExpected, BatchOptions::kMaxCustomerBytes) &&
                  has_number(std::get<TextValue>(option_of("NAME").value).expected,
                             BatchOptions::kMaxNameBytes) &&
                  has_number(option_of("WEIGHT").help, BatchOptions::kMaxWeight),
              "the texts of the table name the bounds");

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_printable_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 32 && c < 127; });
}

// Appends the words of one option, if it differs from its default.
class WordWriter {
 public:
  WordWriter(const BatchOptions& options, std::vector<std::string>& words)
      : options_(options), words_(words) {}

  void write(const BatchOption& option) {
    std::visit([&](const auto& value) { write(option.name, value); }, option.value);
  }

 private:
  void append(std::string_view name, std::string value) {
    words_.emplace_back(name);
    words_.push_back(std::move(value));
  }

  void write(std::string_view name, const TextValue& value) {
    if (const std::string& text = options_.*value.member; !text.empty()) append(name, text);
  }
  void write(std::string_view name, const NumberValue<std::uint32_t>& value) {
    if (const std::uint32_t number = options_.*value.member; number != defaults_.*value.member) {
      append(name, std::to_string(number));
    }
  }
  void write(std::string_view name, const NumberValue<std::optional<std::uint32_t>>& value) {
    if (const auto& number = options_.*value.member) append(name, std::to_string(*number));
  }
  template <class Unit>
  void write(std::string_view name, const DurationValue<Unit>& value) {
    if (const auto& time = options_.*value.member) append(name, std::to_string(time->count()));
  }
  void write(std::string_view name, const KeepValue& value) {
    if (const Keep keep = options_.*value.member; keep != defaults_.*value.member) {
      append(name, std::string(to_string(keep)));
    }
  }
  void write(std::string_view name, const FlagValue& value) {
    if (options_.*value.member) words_.emplace_back(name);
  }
  void write(std::string_view name, const AfterValue& value) {
    for (const AfterBatch& other : options_.*value.member) {
      if (other.only_if_ok == value.only_if_ok) append(name, other.id);
    }
  }

  const BatchOptions defaults_{};
  const BatchOptions& options_;
  std::vector<std::string>& words_;
};

}  // namespace

std::string_view to_string(Keep keep) {
  switch (keep) {
    case Keep::kAll:
      return "all";
    case Keep::kFailures:
      return "failures";
    case Keep::kNone:
      return "none";
  }
  return "";
}

bool is_valid_batch_id(std::string_view id) {
  return !id.empty() && id.size() <= BatchOptions::kMaxIdBytes && is_printable_word(id);
}

bool is_valid_customer(std::string_view name) {
  return !name.empty() && name.size() <= BatchOptions::kMaxCustomerBytes && is_printable_word(name);
}

bool is_valid_customer_text(std::string_view text) {
  constexpr std::size_t kUserAndSlash = 65;
  return !text.empty() && text.size() <= kUserAndSlash + BatchOptions::kMaxCustomerBytes &&
         is_printable_word(text);
}

bool is_valid_batch_name(std::string_view name) {
  return name.size() <= BatchOptions::kMaxNameBytes &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

// Version 00, trace id, parent id (neither all zeros), flags.
bool is_valid_traceparent(std::string_view text) {
  constexpr std::size_t kBytes = 55;
  if (text.size() != kBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(3, 32);
  const std::string_view parent = text.substr(36, 16);
  const std::string_view flags = text.substr(53, 2);
  const auto is_zero = [](std::string_view hex) { return hex.find_first_not_of('0') == hex.npos; };
  return version == "00" && is_lower_hex(trace) && is_lower_hex(parent) && is_lower_hex(flags) &&
         !is_zero(trace) && !is_zero(parent);
}

const BatchOption* find_batch_option(std::string_view name) {
  const std::size_t index = kOptionNames.find(name);
  return index == kOptionNames.kNone ? nullptr : &kBatchOptions[index];
}

std::vector<std::string> words_of(const BatchOptions& options) {
  std::vector<std::string> words;
  WordWriter writer(options, words);
  for (const BatchOption& option : kBatchOptions) writer.write(option);
  return words;
}

}  // namespace locksley::proto
