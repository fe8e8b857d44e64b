// The functions that carry out the commands of `locksley`. Main's thread calls one of them, once.
#pragma once

#include "daemon/cli/context/context.h"
#include "daemon/cli/context/options.h"

namespace locksley::cli {

// One function for each command; README.md says in which file. Each blocks until the command is
// done, prints its output and its errors, and returns the exit status.

int run_submit(Context& context, SubmitArguments arguments);
int run_exec(Context& context, ExecArguments arguments);
int run_run(Context& context, RunArguments arguments);
int run_results(Context& context, ResultsArguments arguments);
int run_wait(Context& context, const WaitArguments& arguments);
int run_list(Context& context, const ListArguments& arguments);
int run_batch(Context& context, const BatchArguments& arguments);
int run_job(Context& context, const JobArguments& arguments);
int run_running(Context& context, const RunningArguments& arguments);
int run_log(Context& context, const LogArguments& arguments);
int run_weight(Context& context, const WeightArguments& arguments);
int run_slots(Context& context, const SlotsArguments& arguments);
int run_customers(Context& context, const CustomersArguments& arguments);
int run_customer(Context& context, const CustomerArguments& arguments);
int run_handler(Context& context, const HandlerArguments& arguments);
int run_backup(Context& context, const BackupArguments& arguments);
int run_server(Context& context, const ServerArguments& arguments);
int run_top(Context& context, const TopArguments& arguments);
int run_bench(Context& context, const BenchArguments& arguments);
// Becomes another program; returns only if that fails.
int run_work(Context& context, const WorkArguments& arguments);
// Connects to no daemon.
int run_hash_password(const HashPasswordArguments& arguments, bool json, Signals& signals);

}  // namespace locksley::cli
