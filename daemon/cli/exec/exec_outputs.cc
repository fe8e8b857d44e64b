#include "daemon/cli/exec/exec_outputs.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "daemon/cli/json.h"
#include "daemon/cli/table.h"
#include "daemon/cli/utf8.h"

namespace locksley::cli {
namespace {

// As of `run --ordered`. Guess: little for a small machine.
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

// Two texts as one, for OrderedOutputs.
std::string packed(std::string_view output, std::string_view errors) {
  const std::uint64_t size = output.size();
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text.append(output).append(errors);
}

}  // namespace

ExecOutputs::ExecOutputs(const Options& options, Output& output, std::function<void()> before_message)
    : options_(options), output_(output), before_message_(std::move(before_message)) {
  if (!options_.keeps_order) return;
  order_ = std::make_unique<OrderedOutputs>(kKeptMemoryBytes, [this](const client::ResultRow& row) {
    std::uint64_t size = 0;
    if (row.output.size() < sizeof size || row.status == "lost") return show({}, row.output);
    std::memcpy(&size, row.output.data(), sizeof size);
    const std::string_view both = row.output.substr(sizeof size);
    show(both.substr(0, size), both.substr(size));
  });
}

void ExecOutputs::add(std::uint64_t index, const ExecJob& job, const ExecEnd& end, std::string_view errors) {
  if (options_.files != nullptr && problem_.empty()) {
    if (auto written = options_.files->write(job, end.output, errors); !written)
      problem_ = written.error().message;
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
    shown_errors += "locksley: job " + std::to_string(job.number) + " (" + printable(job.joined()) +
                    "): " + printable(message) + "\n";
  }
  if (order_ != nullptr) {
    order_->add({index, end.status, packed(output, shown_errors)});
  } else {
    show(output, shown_errors);
  }
}

void ExecOutputs::skip(std::uint64_t index) {
  if (order_ != nullptr) order_->add({index, "ok", packed({}, {})});
}

void ExecOutputs::finish() {
  if (order_ != nullptr) order_->finish();
  output_.flush();
}

void ExecOutputs::show(std::string_view output, std::string_view errors) {
  if (!output.empty()) output_.append(output);
  if (errors.empty()) return;
  output_.flush();
  before_message_();
  std::fwrite(errors.data(), 1, errors.size(), stderr);
}

}  // namespace locksley::cli
