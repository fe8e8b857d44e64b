#include "daemon/cli/program.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/command_line.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/context/context.h"
#include "daemon/cli/context/signals.h"

namespace locksley::cli {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

int run_program(std::vector<std::string> arguments) {
  auto line = parse_command_line(std::move(arguments));
  if (!line) {
    std::fputs(line.error().text.c_str(), line.error().exit_code == daemon::kExitOk ? stdout : stderr);
    return line.error().exit_code;
  }
  Signals signals;
  if (const auto* command = std::get_if<HashPasswordArguments>(&line->command)) {
    return run_hash_password(*command, line->global.json, signals);
  }
  const auto addresses = choose_addresses(
      line->global, [](const char* name) -> const char* { return std::getenv(name); },
      std::holds_alternative<WorkArguments>(line->command) ? kWorkersPort : client::kDefaultPort);
  if (!addresses) {
    const int code = Context(line->global, {}, signals).fail(addresses.error());
    return std::holds_alternative<ExecArguments>(line->command) ? daemon::kExitExecFailed : code;
  }
  Context context(line->global, *addresses, signals);
  return std::visit(Overloaded{
                        [&](SubmitArguments& command) { return run_submit(context, std::move(command)); },
                        [&](ExecArguments& command) { return run_exec(context, std::move(command)); },
                        [&](RunArguments& command) { return run_run(context, std::move(command)); },
                        [&](ResultsArguments& command) { return run_results(context, std::move(command)); },
                        [&](WaitArguments& command) { return run_wait(context, command); },
                        [&](ListArguments& command) { return run_list(context, command); },
                        [&](BatchArguments& command) { return run_batch(context, command); },
                        [&](JobArguments& command) { return run_job(context, command); },
                        [&](RunningArguments& command) { return run_running(context, command); },
                        [&](LogArguments& command) { return run_log(context, command); },
                        [&](WeightArguments& command) { return run_weight(context, command); },
                        [&](SlotsArguments& command) { return run_slots(context, command); },
                        [&](CustomersArguments& command) { return run_customers(context, command); },
                        [&](CustomerArguments& command) { return run_customer(context, command); },
                        [&](HandlerArguments& command) { return run_handler(context, command); },
                        [&](BackupArguments& command) { return run_backup(context, command); },
                        [&](ServerArguments& command) { return run_server(context, command); },
                        [&](TopArguments& command) { return run_top(context, command); },
                        [&](BenchArguments& command) { return run_bench(context, command); },
                        [&](WorkArguments& command) { return run_work(context, command); },
                        [&](HashPasswordArguments&) -> int { std::unreachable(); },  // handled above
                    },
                    line->command);
}

}  // namespace locksley::cli
