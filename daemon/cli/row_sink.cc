#include "daemon/cli/row_sink.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "daemon/cli/json.h"
#include "daemon/cli/table.h"

namespace locksley::cli {
namespace {

// Bytes of outputs that --ordered keeps in memory before it writes them to a temporary file. Guess: little for
// a small machine.
constexpr std::size_t kOrderedMemoryBytes = std::size_t{64} << 20;

}  // namespace

std::string failure_line(const client::ResultRow& row) {
  std::string text(row.output);
  text.erase(text.find_last_not_of("\r\n") + 1);
  return "job " + std::to_string(row.index) + ": " + printable(std::string(row.status)) + ": " +
         printable(text);
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
  if (is_ok && options_.failed_only) return;
  const bool has_file = is_ok && !options_.directory.empty();
  const std::string file = has_file ? options_.directory + "/" + std::to_string(row.index) : std::string();
  if (has_file) write_file(row, file);
  if (options_.json) {
    output_.append(json_text(row, file));
    output_.append("\n");
  } else if (has_file) {
    // That is all.
  } else if (is_ok) {
    output_.append(row.output);
    // An output that ends with a line end, as programs' outputs do, gets no second one.
    if (!row.output.ends_with('\n')) output_.append("\n");
  } else if (options_.failed_only) {
    output_.append(failure_line(row) + "\n");
  } else {
    before_message_();
    std::fprintf(stderr, "%s\n", failure_line(row).c_str());
  }
}

void RowSink::write_file(const client::ResultRow& row, const std::string& name) {
  if (!problem_.empty()) return;
  std::FILE* file = std::fopen(name.c_str(), "wb");
  const bool written =
      file != nullptr && std::fwrite(row.output.data(), 1, row.output.size(), file) == row.output.size();
  const int write_error = errno;
  if (file != nullptr && std::fclose(file) == 0 && written) return;
  problem_ = name + ": " + std::strerror(written ? errno : write_error);
}

}  // namespace locksley::cli
