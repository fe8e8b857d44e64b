#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/job.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/bench/bench_throughput.h"
#include "daemon/cli/bench/latency.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "proto/command_writer.h"

namespace locksley::cli {
namespace {

using client::Connection;
using client::Expected;

constexpr std::chrono::seconds kConnectTimeout{10};
constexpr std::chrono::minutes kReplyTimeout{5};

double own_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Runs `work(number, connection)` on a thread for each connection, all connected before any begins.
// If a thread cannot be started, none does any work.
template <class Value, class Work>
Expected<std::vector<Value>> on_each_connection(const Context& context, unsigned connections, Work work) {
  auto first = context.connect();
  if (!first) return std::unexpected(std::move(first.error()));
  if (auto found = first->find_serving(); !found) return std::unexpected(std::move(found.error()));
  const client::Address address = first->address();
  std::vector<Expected<Value>> outcomes(connections);
  std::latch connected(connections);
  std::string unstarted;  // why a thread is missing; written before the latch opens, read after it
  {
    std::vector<std::jthread> threads;
    threads.reserve(connections);
    try {
      for (unsigned number = 0; number < connections; ++number) {
        threads.emplace_back([&, number] {
          Connection connection(context.signals().fd());
          auto opened = connection.open(address, "locksley-bench", client::deadline_in(kConnectTimeout));
          connected.arrive_and_wait();
          if (!unstarted.empty()) return;
          outcomes[number] = opened ? work(number, connection) : std::unexpected(opened.error());
        });
      }
    } catch (const std::system_error& error) {
      unstarted = error.code().message();
      connected.count_down(static_cast<std::ptrdiff_t>(connections - threads.size()));
    }
    if (!unstarted.empty()) {
      return client::client_error(client::ClientError::Kind::kLocal,
                                  "only " + with_commas(threads.size()) + " of " + with_commas(connections) +
                                      " threads can be started (" + unstarted + "): use fewer --connections");
    }
  }
  std::vector<Value> values;
  for (auto& outcome : outcomes) {
    if (!outcome) return std::unexpected(std::move(outcome.error()));
    values.push_back(std::move(*outcome));
  }
  return values;
}

// A closed loop: the next job is sent once the output of the last one has arrived. Returns the time
// of each job, in nanoseconds.
Expected<std::vector<std::uint64_t>> latencies(const BenchPlan& plan, std::uint64_t jobs,
                                               Connection& connection) {
  proto::OutputBuffer out;
  proto::CommandWriter(out).command({"RUN", plan.handler(), "JOBS", plan.payload()});
  const std::string command = out.to_string();
  std::vector<std::uint64_t> nanoseconds;
  nanoseconds.reserve(jobs);
  for (std::uint64_t i = 0; i < jobs; ++i) {
    const auto before = now();
    connection.send(command);
    const auto reply = connection.read(before + kReplyTimeout);
    if (!reply) return std::unexpected(reply.error());
    nanoseconds.push_back(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now() - before).count()));
    if (reply->is_error()) return std::unexpected(client::refused(reply->text));
    const auto results = client::to_job_results(*reply);
    if (!results) return std::unexpected(results.error());
    if (results->size() != 1 || results->front().status != "ok") {
      return connection.protocol_error("a RUN of one job did not end with one ok");
    }
  }
  return nanoseconds;
}

int bench_latency(Context& context, const BenchPlan& plan) {
  const auto before = now();
  auto parts = on_each_connection<std::vector<std::uint64_t>>(
      context, plan.connections(), [&](unsigned number, Connection& connection) {
        return latencies(plan, plan.jobs_of_connection(number), connection);
      });
  if (!parts) return context.fail(parts.error());
  const double seconds = std::chrono::duration<double>(now() - before).count();
  std::vector<std::uint64_t> all;
  for (const auto& part : *parts) all.insert(all.end(), part.begin(), part.end());
  const LatencySummary s = summarize(std::move(all));
  const double rate = static_cast<double>(s.samples) / seconds;
  if (context.json()) {
    return print(json_object({{"mode", "latency"},
                              {"handler", plan.handler()},
                              {"jobs", s.samples},
                              {"connections", std::uint64_t{plan.connections()}},
                              {"payload_bytes", plan.payload_bytes()},
                              {"seconds", seconds},
                              {"jobs_per_second", rate},
                              {"p50_us", s.p50_us},
                              {"p90_us", s.p90_us},
                              {"p99_us", s.p99_us},
                              {"p99.9_us", s.p999_us},
                              {"max_us", s.max_us},
                              {"mean_us", s.mean_us}}) +
                 "\n");
  }
  std::printf("%s jobs, one at a time on each of %u connections: %s jobs/s\n", with_commas(s.samples).c_str(),
              plan.connections(), short_number(rate).c_str());
  std::printf("p50 %.1f us, p90 %.1f us, p99 %.1f us, p99.9 %.1f us, max %.1f us\n", s.p50_us, s.p90_us,
              s.p99_us, s.p999_us, s.max_us);
  return daemon::kExitOk;
}

// After Ctrl-C or an error: cancels the batches, and forgets those that end within two seconds. The
// others are left to the daemon's retention.
void withdraw(const Context& context, const std::vector<std::string>& ids) {
  constexpr std::chrono::seconds kPatience{2};
  auto client = context.connect(/*interrupt_fd=*/-1, std::chrono::milliseconds(0));
  if (!client) return;
  const auto deadline = client::deadline_in(kPatience);
  for (const std::string& id : ids) {
    if (!client->cancel(id)) continue;
    if (const auto status = client->wait(id, deadline); status && status->is_over()) (void)client->forget(id);
  }
}

int bench_throughput(Context& context, const BenchPlan& plan) {
  const double cpu_before = own_cpu_seconds();
  const auto parts = on_each_connection<ThroughputCount>(
      context, plan.connections(), [&](unsigned number, Connection& connection) {
        ThroughputConnection part(plan, number, connection);
        auto count = part.run();
        if (!count) withdraw(context, part.left_ids());
        return count;
      });
  if (!parts) return context.fail(parts.error());
  ThroughputCount sum = parts->front();
  for (std::size_t i = 1; i < parts->size(); ++i) {
    const ThroughputCount& part = (*parts)[i];
    sum.jobs += part.jobs;
    sum.ok += part.ok;
    sum.output_bytes += part.output_bytes;
    sum.first_sent = std::min(sum.first_sent, part.first_sent);
    sum.last_received = std::max(sum.last_received, part.last_received);
  }
  const double seconds = std::chrono::duration<double>(sum.last_received - sum.first_sent).count();
  const double rate = static_cast<double>(sum.jobs) / seconds;
  const double cpu = own_cpu_seconds() - cpu_before;
  // The outputs of echo are known, so their total length is checked; of other handlers, only that
  // each job was ok.
  const bool is_right =
      sum.ok == sum.jobs && (plan.handler() != "echo" || sum.output_bytes == sum.jobs * plan.payload_bytes());
  if (context.json()) {
    const int printed = print(json_object({{"mode", "throughput"},
                                           {"handler", plan.handler()},
                                           {"jobs", sum.jobs},
                                           {"ok", sum.ok},
                                           {"batches", plan.batches()},
                                           {"connections", std::uint64_t{plan.connections()}},
                                           {"payload_bytes", plan.payload_bytes()},
                                           {"output_bytes", sum.output_bytes},
                                           {"outputs_right", is_right},
                                           {"seconds", seconds},
                                           {"jobs_per_second", rate},
                                           {"client_cpu_seconds", cpu}}) +
                              "\n");
    if (printed != daemon::kExitOk) return printed;
  } else {
    std::printf("%s jobs of %s bytes in %s batches over %u connections: %.3f s, %s jobs/s\n",
                with_commas(sum.jobs).c_str(), with_commas(plan.payload_bytes()).c_str(),
                with_commas(plan.batches()).c_str(), plan.connections(), seconds, short_number(rate).c_str());
    std::printf("%s ok, %s bytes of output%s; this client used %.3f s of CPU\n", with_commas(sum.ok).c_str(),
                with_commas(sum.output_bytes).c_str(), is_right ? "" : ", which is WRONG", cpu);
  }
  return is_right ? daemon::kExitOk : daemon::kExitJobsFailed;
}

}  // namespace

int run_bench(Context& context, const BenchArguments& arguments) {
  const auto plan = BenchPlan::make(arguments);
  if (!plan) return context.fail(plan.error());
  return arguments.latency ? bench_latency(context, *plan) : bench_throughput(context, *plan);
}

}  // namespace locksley::cli
