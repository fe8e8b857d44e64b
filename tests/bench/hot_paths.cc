// The hot paths, one at a time, for a tool that counts instructions (tests/bench/instructions.py):
// `hot_paths NAME N` goes N times down the path NAME on one worker, or on this thread, and does
// nothing else that grows with N.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/tasks/context.h"
#include "core/tasks/task_group.h"
#include "proto/command_reader.h"
#include "proto/command_writer.h"
#include "proto/reply_writer.h"
#include "proto/submit_options.h"

namespace locksley::bench {
namespace {

constexpr std::string_view kPayload = "0123456789abcdef0123456789abcdef";

// Runs `work` as one job of a pool with one worker.
void on_one_worker(const std::function<void(Context&)>& work) {
  Lane lane("cpu", FairRing::Options{});
  Pool pool(lane);
  pool.start(1);
  std::latch done(1);
  pool.post([&](Context& context) {
    work(context);
    done.count_down();
  });
  done.wait();
  pool.stop();
}

// A task spawned, popped, run and counted; a hundred in a group.
void spawn(std::uint64_t n) {
  on_one_worker([n](Context& context) {
    for (std::uint64_t i = 0; i < n; i += 100) {
      TaskGroup group(context);
      for (int j = 0; j < 100; ++j) group.spawn([](Context&) {});
    }
  });
}

// A group of one task: spawn and join.
void join(std::uint64_t n) {
  on_one_worker([n](Context& context) {
    for (std::uint64_t i = 0; i < n; ++i) {
      TaskGroup group(context);
      group.spawn([](Context&) {});
      group.wait();
    }
  });
}

// A trivial job of a batch, by claims, with the ring's accounting.
void jobs(std::uint64_t n, Keep keep) {
  Lane lane("cpu", FairRing::Options{});
  Handler handler("trivial", "",
                  [](JobContext& context, std::string_view payload) { context.write(payload); });
  Pool pool(lane);
  BatchOptions options;
  options.keep = keep;
  auto batch = std::make_shared<Batch>(options, handler, std::make_unique<RangePayloads>(1'000'000));
  lane.submit(batch, n, /*open=*/false);
  pool.start(1);
  (void)pool.drain(std::chrono::steady_clock::now() + std::chrono::minutes(1));
  pool.stop();
}

// A turn: a claim and its settlement, with a thousand batches waiting, at gates in turn; of so many
// customers in turn.
void turns(std::uint64_t n, std::initializer_list<GateOptions> gates, std::size_t customers = 1) {
  FairRing ring({.parallelism = 2});
  for (const GateOptions& gate : gates) ring.gates().add(gate);
  std::vector<RingQueue> queues(1'000);
  for (RingQueue& queue : queues) {
    const auto number = static_cast<std::size_t>(&queue - queues.data());
    const std::string customer = customers == 1 ? "" : std::to_string(number % customers);
    const auto gate = static_cast<GateId>(number % (gates.size() + 1));
    ring.attach(queue, {.tenant = "default", .customer = customer, .weight = 1, .gate = gate}, nullptr);
    ring.add_jobs(queue, std::uint64_t{1} << 50, Nanoseconds{0});
  }
  Nanoseconds now{0};
  std::optional<Claim> claim = ring.try_claim(now);
  for (std::uint64_t i = 0; i < n; ++i) {
    now += std::chrono::milliseconds(1);
    const Settlement settlement{.charged = claim->charged,
                                .actual = std::chrono::microseconds(500 + i % 1'000),
                                .executed = claim->range.size()};
    claim = ring.settle_and_claim(*claim->queue, settlement, now).claim;
  }
  (void)ring.settle(*claim->queue, {.charged = claim->charged, .executed = claim->range.size()}, now);
  ring.detach_all();
}

// A job of 32 bytes in a SUBMIT, parsed.
void parse(std::uint64_t n) {
  proto::OutputBuffer out;
  proto::CommandWriter writer(out);
  writer.begin(3 + n);
  for (const std::string_view word : {"SUBMIT", "echo", "JOBS"}) writer.argument(word);
  std::string command_bytes = out.to_string();
  std::string thousand;
  for (int i = 0; i < 1'000; ++i) thousand.append("$32\r\n").append(kPayload).append("\r\n");
  command_bytes.reserve(command_bytes.size() + n / 1'000 * thousand.size());
  for (std::uint64_t i = 0; i < n; i += 1'000) command_bytes += thousand;
  std::string_view bytes = command_bytes;
  proto::CommandReader reader;
  proto::Command command;
  while (!bytes.empty()) {
    const auto space = reader.prepare();
    const std::size_t size = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), size);
    reader.commit(size);
    bytes.remove_prefix(size);
    (void)reader.next(command);
  }
}

// The words of a SUBMIT of one job: its six options, as clients of the command line send them.
void options(std::uint64_t n) {
  constexpr std::string_view kWords[] = {"SUBMIT", "echo", "ID",   "3f2a9c",   "NAME",    "nightly",
                                         "WEIGHT", "3",    "KEEP", "failures", "RETRIES", "2",
                                         "SLOTS",  "8",    "JOBS", "a"};
  const proto::ArgumentList arguments = proto::ArgumentList::copy_of(kWords);
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!proto::parse_submit(arguments)) std::abort();
  }
}

// A PING, parsed, pipelined.
void ping(std::uint64_t n) {
  proto::CommandReader reader;
  proto::Command command;
  for (std::uint64_t i = 0; i < n; i += 100) {
    for (int j = 0; j < 100; ++j) {
      constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";
      const auto space = reader.prepare();
      std::memcpy(space.data(), kPing.data(), kPing.size());
      reader.commit(kPing.size());
    }
    while (reader.next(command) == proto::ReadStatus::kComplete) {
    }
  }
}

// A row of RESULTS, 32 bytes of output, written.
void row(std::uint64_t n) {
  proto::OutputBuffer out;
  for (std::uint64_t i = 0; i < n; i += 1'000) {
    proto::ReplyWriter writer(out, proto::Protocol::kResp2);
    for (std::uint64_t j = 0; j < 1'000; ++j) writer.result_row(i + j, "ok", kPayload);
    out.clear();
  }
}

int run(int count, char** words) {
  const std::map<std::string_view, std::function<void(std::uint64_t)>> paths{
      {"spawn", spawn},
      {"join", join},
      {"job", [](std::uint64_t n) { jobs(n, Keep::kNone); }},
      {"job_with_result", [](std::uint64_t n) { jobs(n, Keep::kAll); }},
      {"turn", [](std::uint64_t n) { turns(n, {}); }},
      {"turn_of_customers", [](std::uint64_t n) { turns(n, {}, 100); }},
      {"turn_at_gates", [](std::uint64_t n) { turns(n, {{.concurrency = 1}, {}}); }},
      {"parse", parse},
      {"options", options},
      {"ping", ping},
      {"row", row},
  };
  std::uint64_t n = 0;
  const auto path = count == 3 ? paths.find(words[1]) : paths.end();
  if (path == paths.end() ||
      std::from_chars(words[2], words[2] + std::strlen(words[2]), n).ec != std::errc()) {
    std::fputs("usage: hot_paths NAME N, where NAME is one of:", stderr);
    for (const auto& [name, function] : paths) std::fprintf(stderr, " %s", std::string(name).c_str());
    std::fputs("\n", stderr);
    return 64;
  }
  path->second(n);
  return 0;
}

}  // namespace
}  // namespace locksley::bench

int main(int count, char** words) { return locksley::bench::run(count, words); }
