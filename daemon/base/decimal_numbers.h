#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace locksley::daemon {

// Makes an option's numbers decimal: CLI11 reads 010 as 8, as C does.
inline const CLI::Validator kDecimalNumbers(
    [](std::string& text) {
      const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
      const bool is_decimal = text.find_first_not_of("0123456789", sign) == std::string::npos;
      const std::size_t first = text.find_first_not_of('0', sign);
      if (is_decimal && text.size() > sign) {
        const std::size_t kept = first == std::string::npos ? text.size() - 1 : first;
        text.erase(sign, kept - sign);
      }
      return std::string();
    },
    "");

// The same for all options of integers of the program and its commands. Call it when all are there.
inline void read_decimal_numbers(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT") || type.starts_with("UINT")) option->transform(kDecimalNumbers);
  }
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; }))
    read_decimal_numbers(*command);
}

}  // namespace locksley::daemon
