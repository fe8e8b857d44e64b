// A plugin: the price of a European call option, by simulation. The payload is one line,
//
//   SPOT STRIKE RATE VOLATILITY YEARS PATHS        100 105 0.02 0.25 1.5 1000000
//
// and the output `PRICE ERROR`, the standard error of the mean. One job is a parallel loop over its
// paths, so that a single option uses all idle workers, and many at once share them. The same
// payload gives the same price, whichever worker computes which part: paths come in blocks, and
// each block has random numbers of its own.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin_cxx.h"

namespace {

using locksley::plugin::Job;

constexpr std::uint64_t kMostPaths = 10'000'000'000;
constexpr std::uint64_t kBlock = 10'000;  // paths: about half a millisecond

struct Option {
  double spot, strike, rate, volatility, years;
  std::uint64_t paths;
};

// Takes the next number from the front of `text`.
template <class Number>
Number take(std::string_view& text, const char* name, Number low, Number high) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole_word = end == text.data() + text.size() || *end == ' ';
  if (error != std::errc() || !is_whole_word || !(number >= low && number <= high)) {
    std::array<char, 160> message{};
    std::snprintf(message.data(), message.size(), "%s: expected a number from %g to %g, found \"%.40s\"",
                  name, static_cast<double>(low), static_cast<double>(high),
                  std::string(text.substr(0, text.find(' '))).c_str());
    throw std::invalid_argument(message.data());
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

Option parse(std::string_view text) {
  Option option{};
  option.spot = take(text, "spot", 1e-6, 1e9);
  option.strike = take(text, "strike", 1e-6, 1e9);
  option.rate = take(text, "rate", -1.0, 1.0);
  option.volatility = take(text, "volatility", 0.0, 10.0);
  option.years = take(text, "years", 0.0, 100.0);
  option.paths = take<std::uint64_t>(text, "paths", 2, kMostPaths);
  if (text.find_first_not_of(' ') != std::string_view::npos) {
    throw std::invalid_argument("expected six numbers: spot strike rate volatility years paths; found more");
  }
  return option;
}

struct Sums {
  double payoffs = 0;
  double squares = 0;
};

Sums simulate(const Option& option, std::uint64_t block) {
  std::mt19937_64 random(block);
  std::normal_distribution<double> normal;
  const double drift = (option.rate - option.volatility * option.volatility / 2) * option.years;
  const double spread = option.volatility * std::sqrt(option.years);
  const std::uint64_t paths = std::min(kBlock, option.paths - block * kBlock);
  Sums sums;
  for (std::uint64_t i = 0; i < paths; ++i) {
    const double end = option.spot * std::exp(drift + spread * normal(random));
    const double payoff = std::max(end - option.strike, 0.0);
    sums.payoffs += payoff;
    sums.squares += payoff * payoff;
  }
  return sums;
}

void price(Job& job, std::string_view payload) {
  const Option option = parse(payload);  // what it throws becomes the job's error
  std::vector<Sums> blocks((option.paths + kBlock - 1) / kBlock);
  job.parallel_for(0, blocks.size(), [&](std::uint64_t i) { blocks[i] = simulate(option, i); });
  if (job.should_stop()) return job.give_up();  // the rest of the loop was dropped

  Sums sums;
  for (const Sums& block : blocks) {
    sums.payoffs += block.payoffs;
    sums.squares += block.squares;
  }
  const double paths = static_cast<double>(option.paths);
  const double discount = std::exp(-option.rate * option.years);
  const double mean = sums.payoffs / paths;
  const double variance = std::max(sums.squares / paths - mean * mean, 0.0);
  std::array<char, 80> line{};
  std::snprintf(line.data(), line.size(), "%.6f %.6f", discount * mean,
                discount * std::sqrt(variance / paths));
  job.write(line.data());
}

}  // namespace

LOCKSLEY_PLUGIN("pricing", "prices a call option: spot strike rate volatility years paths",
                [](Job& job, std::string_view payload) { price(job, payload); })
