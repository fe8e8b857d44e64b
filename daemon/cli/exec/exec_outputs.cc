#include "daemon/cli/exec/exec_outputs.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "daemon/cli/text/json.h"
#include "daemon/cli/text/table.h"
#include "daemon/cli/text/utf8.h"

namespace locksley::cli {
namespace {

// The same as for `run --ordered`. Guess: little for a small machine.
constexpr std::size_t kKeptMemoryBytes = std::size_t{64} << 20;

std::string tagged(std::string_view text, const std::string& tag) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    result.append(tag).append("\t").append(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result;
}

std::string json_of(const ExecJob& job, const ExecEnd& end, std::string_view errors) {
  const auto bytes = [](std::string name, std::string_view value) {
    return is_utf8(value) ? std::pair<std::string, JsonValue>(std::move(name), std::string(value))
                          : std::pair<std::string, JsonValue>(name + "_base64", base64(value));
  };
  return json_object({{"seq", job.number},
                      bytes("input", job.joined()),
                      {"status", std::string(end.status)},
                      {"exit_status", std::int64_t{end.exit_value}},
                      {"signal", std::int64_t{end.signal}},
                      bytes("output", end.output),
                      bytes("errors", errors)}) +
         "\n";
}

}  // namespace

ExecOutputs::ExecOutputs(const Options& options, Output& output, std::function<void()> before_message,
                         OnShown on_shown)
    : options_(options),
      output_(output),
      before_message_(std::move(before_message)),
      on_shown_(std::move(on_shown)) {
  if (!options_.keeps_order) return;
  order_ = std::make_unique<OrderedOutputs>(kKeptMemoryBytes, [this](const client::ResultRow& row) {
    if (row.status != "lost") return show(unpacked(row.output));
    if (problem_.empty()) problem_ = row.output;
  });
}

std::string ExecOutputs::packed(const Texts& texts) {
  const std::array<std::uint64_t, 2> sizes{texts.output.size(), texts.errors.size()};
  std::string text(sizeof sizes, '\0');
  std::memcpy(text.data(), sizes.data(), sizeof sizes);
  return text.append(texts.output).append(texts.errors).append(texts.log_line);
}

ExecOutputs::Texts ExecOutputs::unpacked(std::string_view text) {
  std::array<std::uint64_t, 2> sizes{};
  std::memcpy(sizes.data(), text.data(), sizeof sizes);
  text.remove_prefix(sizeof sizes);
  return {.output = text.substr(0, sizes[0]),
          .errors = text.substr(sizes[0], sizes[1]),
          .log_line = text.substr(sizes[0] + sizes[1])};
}

void ExecOutputs::add(std::uint64_t index, const ExecJob& job, const ExecEnd& end, std::string_view errors,
                      std::string_view log_line) {
  if (!problem_.empty()) return;
  if (options_.files != nullptr) {
    if (auto written = options_.files->write(job, end.output, errors); !written) {
      problem_ = written.error().message;
      return;
    }
  }
  std::string output(options_.files == nullptr ? end.output : std::string_view());
  std::string shown_errors(errors);
  if (options_.json) {
    output = json_of(job, end, errors);
    shown_errors.clear();
  } else if (options_.tags) {
    const std::string tag = printable(job.joined());
    output = tagged(output, tag);
    shown_errors = tagged(shown_errors, tag);
  }
  if (const std::string message = end.message(errors); !message.empty() && !options_.json) {
    if (!shown_errors.empty() && !shown_errors.ends_with('\n')) shown_errors += '\n';
    shown_errors += "locksley: job " + std::to_string(job.number) + " (" + job.shown() +
                    "): " + printable(message) + "\n";
  }
  const Texts texts{.output = output, .errors = shown_errors, .log_line = log_line};
  if (order_ != nullptr) {
    order_->add({index, "ok", packed(texts)});
  } else {
    show(texts);
  }
}

void ExecOutputs::skip(std::uint64_t index) {
  if (order_ != nullptr) order_->add({index, "ok", packed({})});
}

void ExecOutputs::finish() {
  if (order_ != nullptr) order_->finish();
}

void ExecOutputs::show(const Texts& texts) {
  if (!problem_.empty()) return;
  if (!texts.output.empty()) output_.append(texts.output);
  if (!texts.errors.empty()) {
    output_.flush();
    before_message_();
    std::fwrite(texts.errors.data(), 1, texts.errors.size(), stderr);
  }
  if (!texts.log_line.empty()) on_shown_(texts.log_line);
}

}  // namespace locksley::cli
