#include "proto/reply.h"

#include <charconv>

#include "proto/number.h"

namespace locksley::proto {

const Reply* Reply::find(std::string_view key) const {
  if (type != Type::kMap && type != Type::kArray) return nullptr;
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    if (elements[i].is_string() && elements[i].text == key) return &elements[i + 1];
  }
  return nullptr;
}

std::optional<std::int64_t> Reply::to_integer() const {
  if (type == Type::kInteger || type == Type::kBoolean) return integer;
  if (is_string()) return parse_int64(text);
  return std::nullopt;
}

std::optional<double> Reply::to_real() const {
  if (type == Type::kDouble) return real;
  if (type == Type::kInteger) return static_cast<double>(integer);
  if (!is_string()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace locksley::proto
