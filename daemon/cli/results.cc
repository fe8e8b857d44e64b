#include <unistd.h>

#include <cstdio>
#include <optional>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/feed/payload_source.h"
#include "daemon/cli/job/failed_payloads.h"
#include "daemon/cli/names/path_check.h"
#include "daemon/cli/names/result_files.h"
#include "daemon/cli/row_sink.h"
#include "daemon/cli/text/number_text.h"

namespace locksley::cli {

using client::Client;
using client::Expected;
using Kind = client::ClientError::Kind;

namespace {

constexpr std::chrono::milliseconds kFollowSlice{10'000};

// One `locksley results`: the steps in the order in which they happen.
class Results {
 public:
  Results(Context& context, ResultsArguments arguments)
      : context_(context), arguments_(std::move(arguments)), output_(STDOUT_FILENO, context.signals().fd()) {
    if (!arguments_.results.empty()) files_.emplace(PathTemplate::parse(arguments_.results));
  }

  int run() {
    if (auto read = read_inputs(); !read) return context_.fail(read.error());
    auto client = context_.connect();
    if (!client) return context_.fail(client.error());
    if (auto checked = check(*client); !checked) return context_.fail(checked.error());
    return arguments_.payloads ? show_payloads(*client) : show_rows(*client);
  }

 private:
  char separator() const { return arguments_.nul_separated ? '\0' : '\n'; }

  std::optional<std::string> input(std::uint64_t index) const {
    if (index >= arguments_.inputs.size()) return std::nullopt;
    return arguments_.inputs[index];
  }

  Expected<void> read_inputs() {
    if (!arguments_.files || !arguments_.inputs.empty()) return {};
    say_if_terminal_is_read("names of files", separator());
    auto records = read_records(separator(), context_.signals().fd());
    if (!records) return std::unexpected(std::move(records.error()));
    arguments_.inputs = *std::move(records);
    return {};
  }

  // Called before anything is written.
  Expected<void> check(Client& client) {
    if (arguments_.files) {
      const auto status = client.status(arguments_.id);
      if (!status) return std::unexpected(status.error());
      const std::uint64_t given = arguments_.inputs.size();
      // An open batch may get more jobs.
      if (status->state == "open" ? given < status->jobs : given != status->jobs) {
        return client::client_error(
            Kind::kInput, "batch " + arguments_.id + " has " + std::to_string(status->jobs) + " jobs, and " +
                              std::to_string(given) + " inputs were given: these are not its inputs");
      }
    }
    if (!files_) return {};
    if (files_->paths().needs_names()) {
      const NameOf name_of = [this](std::uint64_t index) { return input(index); };
      if (auto checked = check_paths(files_->paths(), arguments_.inputs.size(), name_of, NamesAre::kFiles);
          !checked)
        return checked;
    }
    return files_->begin();
  }

  int show_rows(Client& client) {
    RowSink sink({.json = context_.json(),
                  .ordered = arguments_.ordered,
                  .failed_only = arguments_.failed,
                  .separator = separator(),
                  .files = files_ ? &*files_ : nullptr,
                  .name_of = [this](std::uint64_t index) { return input(index); },
                  .shows_names = arguments_.files},
                 output_, [this] { output_.flush(); });
    const int code = read_rows(
        client, [&](const client::ResultRow& row) { sink.add(row); },
        [&]() -> Expected<void> {
          if (sink.problem().empty()) return {};
          return client::client_error(Kind::kLocal, sink.problem());
        });
    if (code != daemon::kExitOk) return code;
    sink.finish();  // shows the outputs that waited for jobs before them
    if (!sink.problem().empty()) return context_.fail({Kind::kLocal, "", sink.problem()});
    return write_all();
  }

  // Returns the exit status.
  int write_all() {
    output_.flush();
    if (output_.error() != 0) return failed_output(output_.error());
    return output_.is_empty() ? daemon::kExitOk : context_.fail({Kind::kInterrupted, "", "interrupted"});
  }

  int show_payloads(Client& client) {
    FailedPayloads payloads(client, arguments_.id, output_,
                            {.json = context_.json(),
                             .separator = separator(),
                             .name_of = [this](std::uint64_t index) { return input(index); }});
    const int code = read_rows(
        client, [&](const client::ResultRow& row) { payloads.add(row); }, [&] { return payloads.show(); });
    if (payloads.split() != 0) {
      std::fprintf(
          stderr,
          "locksley: payloads that have newlines: %s; as input of `submit` each of their lines would be a "
          "job: use -0 here and there\n",
          with_commas(payloads.split()).c_str());
    }
    if (code != daemon::kExitOk || payloads.missing() == 0) return code;
    return daemon::kExitDataError;
  }

  // Calls `on_row` for each row, and `after_page` for each page. Returns the exit status.
  template <class OnRow, class AfterPage>
  int read_rows(Client& client, OnRow on_row, AfterPage after_page) {
    Client::ResultsPosition position;
    while (!position.at_end) {
      const auto block = arguments_.follow ? kFollowSlice : std::chrono::milliseconds{0};
      const std::uint64_t before = position.cursor;
      auto read = client.results(arguments_.id, position, Client::kRowsAtOnce, block, on_row,
                                 arguments_.discard ? Client::Passed::kDiscarded : Client::Passed::kKept,
                                 arguments_.failed ? Client::Rows::kFailed : Client::Rows::kAll);
      if (read) read = after_page();
      output_.flush();
      if (!read) return context_.fail(read.error());
      if (const int code = write_all(); code != daemon::kExitOk) return code;
      // Without --follow, only the results that exist now are read.
      if (!arguments_.follow && position.cursor == before) break;
    }
    return daemon::kExitOk;
  }

  Context& context_;
  ResultsArguments arguments_;
  Output output_;
  std::optional<ResultFiles> files_;
};

}  // namespace

int run_results(Context& context, ResultsArguments arguments) {
  return Results(context, std::move(arguments)).run();
}

}  // namespace locksley::cli
