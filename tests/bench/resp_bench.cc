// What the codec costs, without any I/O: nanoseconds per argument, per command, per row. Input is
// copied into the readers' memory as a read() would do it (the copy is a part of what is measured,
// and also shown alone, as BM_Memcpy_Baseline). Not measured: sockets, scheduling, what a server
// does with a command.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "proto/command_reader.h"
#include "proto/command_table.h"
#include "proto/command_writer.h"
#include "proto/reply_reader.h"
#include "proto/reply_writer.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;  // what one read() may bring
constexpr std::string_view kPayload = "0123456789abcdef0123456789abcdef";

std::string submit_command(std::size_t jobs) {
  OutputBuffer out;
  CommandWriter writer(out);
  writer.begin(3 + jobs);
  for (std::string_view word : {"SUBMIT", "echo", "JOBS"}) writer.argument(word);
  for (std::size_t i = 0; i < jobs; ++i) writer.argument(kPayload);
  return out.to_string();
}

// Hands `bytes` to the reader as reads would, and calls `parse` after each.
template <typename Reader, typename Parse>
void feed(Reader& reader, std::string_view bytes, const Parse& parse) {
  while (!bytes.empty()) {
    const auto space = reader.prepare();
    const std::size_t n = std::min({space.size(), bytes.size(), kReadBytes});
    std::memcpy(space.data(), bytes.data(), n);
    reader.commit(n);
    bytes.remove_prefix(n);
    parse();
  }
}

void BM_CommandReader_Submit(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(0));
  const std::string bytes = submit_command(jobs);
  CommandReader reader;
  std::size_t memory = 0;
  std::size_t payload = 0;
  for (auto _ : state) {
    Command command;
    feed(reader, bytes, [&] {
      if (reader.next(command) == ReadStatus::kComplete) {
        memory = command.arguments.memory_bytes();
        payload = command.arguments.payload_bytes();
        benchmark::DoNotOptimize(command.arguments.size());
      }
    });
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["overhead_bytes_per_job"] =
      static_cast<double>(memory - payload) / static_cast<double>(jobs);
}
BENCHMARK(BM_CommandReader_Submit)->Arg(100)->Arg(10'000)->Arg(1'000'000);

void BM_Memcpy_Baseline(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(0));
  const std::string bytes = submit_command(jobs);
  for (auto _ : state) {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (std::size_t at = 0; at < bytes.size(); at += Limits::kMiB) {
      blocks.push_back(std::make_unique_for_overwrite<char[]>(Limits::kMiB));
      std::memcpy(blocks.back().get(), bytes.data() + at, std::min(Limits::kMiB, bytes.size() - at));
      benchmark::DoNotOptimize(blocks.back().get());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy_Baseline)->Arg(1'000'000);

void BM_CommandReader_PipelinedSmall(benchmark::State& state, std::string_view command_bytes) {
  constexpr std::size_t kCommands = 10'000;
  std::string bytes;
  for (std::size_t i = 0; i < kCommands; ++i) bytes += command_bytes;
  CommandReader reader;
  Command command;
  for (auto _ : state) {
    feed(reader, bytes, [&] {
      while (reader.next(command) == ReadStatus::kComplete)
        benchmark::DoNotOptimize(command.arguments.size());
    });
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCommands));
}
BENCHMARK_CAPTURE(BM_CommandReader_PipelinedSmall, ping, "*1\r\n$4\r\nPING\r\n");
BENCHMARK_CAPTURE(BM_CommandReader_PipelinedSmall, ping_inline, "PING\r\n");
BENCHMARK_CAPTURE(BM_CommandReader_PipelinedSmall, status,
                  "*2\r\n$6\r\nSTATUS\r\n$16\r\n0123456789abcdef\r\n");

void BM_CommandReader_LargeBulk(benchmark::State& state) {
  OutputBuffer out;
  CommandWriter(out).command({"ECHO", std::string(static_cast<std::size_t>(state.range(0)), 'x')});
  const std::string bytes = out.to_string();
  CommandReader reader;
  for (auto _ : state) {
    Command command;
    feed(reader, bytes, [&] { benchmark::DoNotOptimize(reader.next(command)); });
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_CommandReader_LargeBulk)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);

void BM_ArgumentList_Fetch(benchmark::State& state) {
  CommandReader reader;
  Command command;
  feed(reader, submit_command(100'000), [&] { benchmark::DoNotOptimize(reader.next(command)); });
  std::vector<std::string_view> views(static_cast<std::size_t>(state.range(0)));
  std::size_t first = 0;
  for (auto _ : state) {
    const std::size_t n = command.arguments.fetch(first, views);
    benchmark::DoNotOptimize(views.data());
    first = n < views.size() ? 0 : first + n;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_ArgumentList_Fetch)->Arg(1)->Arg(512);

void BM_FindCommand(benchmark::State& state) {
  constexpr std::string_view kNames[] = {"SUBMIT", "status", "PING", "Results", "NOSUCH", "unsubscribe"};
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(find_command(kNames[i]));
    i = i + 1 == std::size(kNames) ? 0 : i + 1;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_FindCommand);

void BM_ReplyWriter_ResultRow(benchmark::State& state) {
  constexpr std::uint64_t kRows = 100'000;
  OutputBuffer out;
  for (auto _ : state) {
    ReplyWriter writer(out, Protocol::kResp2);
    for (std::uint64_t i = 0; i < kRows; ++i) writer.result_row(i, "ok", kPayload);
    out.consume(out.size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kRows));
}
BENCHMARK(BM_ReplyWriter_ResultRow);

void BM_CommandWriter_Submit(benchmark::State& state) {
  constexpr std::size_t kJobs = 100'000;
  OutputBuffer out;
  for (auto _ : state) {
    CommandWriter writer(out);
    writer.begin(kJobs);
    for (std::size_t i = 0; i < kJobs; ++i) writer.argument(kPayload);
    out.consume(out.size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kJobs));
}
BENCHMARK(BM_CommandWriter_Submit);

std::string results_reply(std::uint64_t rows) {
  OutputBuffer out;
  ReplyWriter writer(out, Protocol::kResp2);
  writer.array(2);
  writer.bulk_integer(1);
  writer.array(rows);
  for (std::uint64_t i = 0; i < rows; ++i) writer.result_row(i, "ok", kPayload);
  return out.to_string();
}

constexpr std::uint64_t kRowsRead = 100'000;

void BM_ReplyReader_ResultRows(benchmark::State& state) {
  const std::string bytes = results_reply(kRowsRead);
  ReplyReader reader;
  std::uint64_t total = 0;
  for (auto _ : state) {
    ResultsReply results;
    feed(reader, bytes, [&] {
      const auto count = [&](std::uint64_t index, std::string_view, std::string_view output) {
        total += index + output.size();
      };
      benchmark::DoNotOptimize(reader.next_results(results, count));
    });
  }
  benchmark::DoNotOptimize(total);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kRowsRead));
}
BENCHMARK(BM_ReplyReader_ResultRows);

void BM_ReplyReader_ResultTree_Baseline(benchmark::State& state) {
  const std::string bytes = results_reply(kRowsRead);
  ReplyReader reader;
  for (auto _ : state) {
    Reply reply;
    feed(reader, bytes, [&] { benchmark::DoNotOptimize(reader.next(reply)); });
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kRowsRead));
}
BENCHMARK(BM_ReplyReader_ResultTree_Baseline);

}  // namespace
}  // namespace locksley::proto

BENCHMARK_MAIN();
