#include "daemon/cli/row_sink.h"

#include <cstdio>

#include "daemon/cli/text/failure_text.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {
namespace {

// Bytes of outputs that --ordered keeps in memory before it writes them to a temporary file. Guess:
// little for a small machine.
constexpr std::size_t kOrderedMemoryBytes = std::size_t{64} << 20;

// An error of several lines, such as a traceback, as one line.
std::string on_one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += ' ';
    } else if (c != '\r') {
      out += c;
    }
  }
  return printable(out);
}

}  // namespace

std::string failure_line(const client::ResultRow& row, const std::optional<std::string>& name) {
  // The traceback is shown by `job`.
  const auto failure = failure_text(row.output);
  std::string text(failure ? failure->message : std::string_view(row.output));
  text.erase(text.find_last_not_of("\r\n") + 1);
  const std::string job = "job " + std::to_string(row.index);
  return (name ? printable(*name) + " (" + job + ")" : job) + ": " + printable(std::string(row.status)) +
         ": " + on_one_line(text);
}

RowSink::RowSink(Options options, Output& output, std::function<void()> before_message)
    : options_(std::move(options)), output_(output), before_message_(std::move(before_message)) {
  if (options_.ordered) {
    order_ = std::make_unique<OrderedOutputs>(kOrderedMemoryBytes, [this](const auto& row) { show(row); });
  }
}

void RowSink::add(const client::ResultRow& row) {
  ++rows_;
  if (row.status != "ok") ++failed_;
  if (order_ != nullptr) {
    order_->add(row);
  } else {
    show(row);
  }
}

void RowSink::finish() {
  if (order_ != nullptr) order_->finish();
  output_.flush();
}

void RowSink::show(const client::ResultRow& row) {
  const bool is_ok = row.status == "ok";
  const std::optional<std::string> name = options_.name_of ? options_.name_of(row.index) : std::nullopt;
  if (is_ok && options_.failed_only) return;
  const bool has_file = is_ok && options_.files != nullptr;
  const std::string file = has_file ? write_file(row, name) : std::string();
  const std::optional<std::string> shown = options_.shows_names ? name : std::nullopt;
  if (options_.json) {
    output_.append(json_text(row, {.input = shown, .file = file}));
    output_.append("\n");
  } else if (has_file) {
    // The file has the output: nothing is printed.
  } else if (is_ok) {
    if (row.output.empty()) return;
    output_.append(row.output);
    // An output that ends with a line end, as programs' outputs do, gets no second one.
    if (!row.output.ends_with(options_.separator)) output_.append({&options_.separator, 1});
  } else if (options_.failed_only) {
    output_.append(failure_line(row, shown) + options_.separator);
  } else {
    before_message_();
    std::fprintf(stderr, "%s\n", failure_line(row, shown).c_str());
  }
}

std::string RowSink::write_file(const client::ResultRow& row, const std::optional<std::string>& name) {
  if (!problem_.empty()) return {};
  if (!name && options_.files->paths().needs_names()) {
    problem_ = "--results: the name of the input of job " + std::to_string(row.index) + " is not known";
    return {};
  }
  auto path = options_.files->write(row.index, name.value_or(std::string()), row.output);
  if (path) return *std::move(path);
  problem_ = path.error().message;
  return {};
}

}  // namespace locksley::cli
