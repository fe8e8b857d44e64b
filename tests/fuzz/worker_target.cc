// The worker protocol: whatever a worker program writes, however it closes and ends, each job that
// is over was answered by it or says why not, and the rest goes back.
//
// The first byte says how the handler is configured, the second how many jobs there are. Then comes
// what processes write; 0xFF and a letter in between is a step:
//   p   what is there so far is written, and the daemon works through it
//   0 1 from here on it is the oldest process' bytes, the next one's
//   E   from here on it goes to standard error      O   to standard output again
//   i   standard input is read and checked          I   it is closed
//   o   standard output is closed
//   e   it exits with status 0     f  with 1        k   it is killed
//   c   the batch is cancelled     s  the lane is stopped
//   b   there is another batch
// 0xFF before anything else is a byte.
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>

#include <asio/io_context.hpp>
#include <csignal>
#include <memory>
#include <set>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/batch_results.h"
#include "core/batch/handler.h"
#include "core/batch/payload.h"
#include "daemon/process/lane/process_lane.h"
#include "daemon/process/lane/process_loop.h"
#include "daemon/process/runners/worker_runner.h"
#include "proto/reply_reader.h"
#include "tests/fuzz/keeper_without_processes.h"
#include "tests/fuzz/target.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley::fuzz {
namespace {

using daemon::ProcessLane;
using daemon::ProcessLoop;

constexpr std::uint8_t kStep = 0xFF;

config::Handler settings_of(std::uint8_t choice) {
  config::Handler settings;
  settings.worker = {"/bin/pretended"};
  settings.concurrency = (choice & 1) != 0 ? 2 : 1;
  settings.max_output = config::Bytes{(choice & 2) != 0 ? 20U : 1U << 20};
  settings.max_jobs = (choice & 4) != 0 ? 3 : 0;
  // pretended as the fuzzer's own: larger
  settings.max_memory = config::Bytes{(choice & 8) != 0 ? 1U : 0U};
  return settings;
}

// What a process has said, by another look at the same bytes.
class Said {
 public:
  explicit Said(std::uint64_t max_output)
      : reader_({.max_bulk_bytes = max_output, .max_elements = 1024, .max_depth = 2}) {}

  void add(std::string_view bytes) {
    if (is_broken_) return;
    proto::feed(reader_, bytes, [this] {
      proto::Reply reply;
      proto::ReadStatus status = proto::ReadStatus::kNeedMore;
      while ((status = reader_.next(reply)) == proto::ReadStatus::kComplete) {
        if (reply.is_string()) outputs.insert(reply.text);
        if (reply.is_error()) errors.insert(reply.text);
      }
      is_broken_ = is_broken_ || status == proto::ReadStatus::kError;
    });
  }

  std::multiset<std::string> outputs;
  std::multiset<std::string> errors;

 private:
  proto::ReplyReader reader_;
  bool is_broken_ = false;
};

class Play {
 public:
  Play(std::uint8_t choice, std::uint64_t jobs)
      : jobs_(jobs), max_output_(settings_of(choice).max_output.count), loop_(make_log()) {
    auto program = daemon::Program::make("fuzz", settings_of(choice));
    if (!program) fail("the program is one", program.error());
    lane_ = std::make_unique<ProcessLane>(
        loop_, "fuzz", FairRing::Options{.parallelism = settings_of(choice).concurrency},
        [](ProcessLane& lane, daemon::LaneSlot& slot, daemon::Program::Kind) {
          return std::make_unique<daemon::WorkerRunner>(lane, slot);
        });
    const ThreadRoleScope io_thread(daemon::kIoThread);
    lane_->set_slots({.slots = {.count = settings_of(choice).concurrency, .names = {}}});
    handler_in_lane_ = &lane_->handler("fuzz");
    lane_->set_program(*handler_in_lane_, std::make_shared<const daemon::Program>(std::move(*program)));
    keeper_.on_signal = [this](std::uint64_t process, int signal) {
      if (signal == SIGTERM) terminated_.insert(process);
    };
    add_batch();
  }

  void run(std::string_view script) {
    work();
    while (!script.empty()) {
      const std::size_t step = script.find(static_cast<char>(kStep));
      pending_ += script.substr(0, step);
      if (step == std::string_view::npos || step + 1 == script.size()) break;
      take_step(script[step + 1]);
      script.remove_prefix(step + 2);
    }
    write();
    work();
  }

  // The daemon ends; the processes that were told to end do so.
  void end() {
    stop_lane();
    work();
    for (const std::uint64_t process : terminated_) keeper_.end(process, -SIGTERM);
    work();
    {
      const ThreadRoleScope role(daemon::kProcessThread);
      lane_->abandon();
    }
    for (const auto& batch : batches_) {
      check_status(*batch);
      require(batch->status().running == 0, "nothing runs without a process");
      lane_->lane().cancel(*batch, "the end");
      require(batch->is_over(), "what is cancelled is over");
      check_results(*batch);
    }
    work();
    lane_->lane().detach_all();
    lane_.reset();
    work();
    keeper_.on_signal = nullptr;
  }

 private:
  static std::shared_ptr<spdlog::logger> make_log() {
    return std::make_shared<spdlog::logger>("fuzz", std::make_shared<spdlog::sinks::null_sink_mt>());
  }

  void add_batch() {
    constexpr std::size_t kMostBatches = 4;
    if (batches_.size() == kMostBatches) return;
    BatchOptions options;
    options.id = "batch-" + std::to_string(batches_.size());
    options.gate = handler_in_lane_->gate();
    batches_.push_back(std::make_shared<Batch>(options, handler_, std::make_unique<RangePayloads>(0)));
    lane_->lane().submit(batches_.back(), jobs_, /*open=*/false);
  }

  // The loop has no thread here: this thread has its role.
  void work() {
    const ThreadRoleScope role(daemon::kProcessThread);
    asio::io_context& io = loop_.executor().context();
    io.restart();
    io.poll();
  }

  void stop_lane() {
    const ThreadRoleScope role(daemon::kProcessThread);
    lane_->stop();
  }

  void take_step(char step) {
    if (static_cast<std::uint8_t>(step) == kStep) {
      pending_ += step;
      return;
    }
    write();
    switch (step) {
      case 'p':
        break;
      case '0':
      case '1':
        current_ = static_cast<std::size_t>(step - '0');
        break;
      case 'E':
        descriptor_ = 2;
        break;
      case 'O':
        descriptor_ = 1;
        break;
      case 'i':
        if (auto* const process = this->process()) read_input(*process);
        break;
      case 'I':
        if (auto* const process = this->process()) process->second.close(0);
        break;
      case 'o':
        if (auto* const process = this->process()) process->second.close(1);
        break;
      case 'e':
      case 'f':
      case 'k':
        if (auto* const process = this->process()) {
          keeper_.end(process->first, step == 'e' ? 0 : step == 'f' ? 1 : -SIGSEGV);
        }
        break;
      case 'c':
        lane_->lane().cancel(*batches_.back(), "cancelled");
        break;
      case 's':
        stop_lane();
        break;
      case 'b':
        add_batch();
        break;
      default:
        break;
    }
    work();
    for (const auto& batch : batches_) check_status(*batch);
  }

  using Process = std::pair<const std::uint64_t, PretendedProcess>;
  // Null: it does not run.
  Process* process() {
    if (current_ >= keeper_.processes.size()) return nullptr;
    return &*std::next(keeper_.processes.begin(), static_cast<std::ptrdiff_t>(current_));
  }

  void write() {
    Process* const process = this->process();
    if (process != nullptr && !pending_.empty()) {
      const std::size_t wrote = process->second.write(descriptor_, pending_);
      if (descriptor_ == 1) {
        said_.try_emplace(process->first, max_output_)
            .first->second.add(std::string_view(pending_).substr(0, wrote));
      }
    }
    pending_.clear();
  }

  void read_input(Process& process) {
    std::unique_ptr<proto::CommandReader>& reader = asked_[process.first];
    if (!reader) reader = std::make_unique<proto::CommandReader>();
    proto::feed(*reader, process.second.read(), [&] {
      proto::Command command;
      proto::ReadStatus status = proto::ReadStatus::kNeedMore;
      while ((status = reader->next(command)) == proto::ReadStatus::kComplete) {
        const auto& words = command.arguments;
        require(words.size() == 3, "a job is its payload, its index and its batch");
        require(words[0] == words[1] && words[2].starts_with("batch-"),
                "a worker is asked for what was submitted");
      }
      require(status == proto::ReadStatus::kNeedMore, "a worker is sent commands");
    });
  }

  void check_status(const Batch& batch) const {
    const BatchStatus status = batch.status();
    require(status.jobs == jobs_, "no job is lost");
    require(status.queued + status.running + status.ok + status.failed + status.cancelled == jobs_,
            "jobs are queued, or running, or have ended");
    require(status.running == 0 || !keeper_.processes.empty() || status.state == BatchState::kRunning,
            "what runs is running");
  }

  void check_results(const Batch& batch) {
    std::set<std::uint64_t> seen;
    batch.results().read(0, jobs_ + 1, [&](const ResultRow& row) {
      require(row.index < jobs_ && seen.insert(row.index).second, "each job has one result");
      if (row.status == JobStatus::kOk) {
        require(take(&Said::outputs, row.output), "what a job gave is what a worker said");
      }
      if (row.status == JobStatus::kError) {
        require(row.output.starts_with("its worker ") || take(&Said::errors, row.output),
                "a job's error is a worker's, or about it");
      }
      return true;
    });
    require(seen.size() == jobs_, "each job has a result");
  }

  // A thing that was said counts once.
  bool take(std::multiset<std::string> Said::* things, std::string_view text) {
    for (auto& [process, said] : said_) {
      auto& among = said.*things;
      const auto found = among.find(std::string(text));
      if (found == among.end()) continue;
      among.erase(found);
      return true;
    }
    return false;
  }

  const std::uint64_t jobs_;
  const std::uint64_t max_output_;
  PretendedKeeper& keeper_ = PretendedKeeper::instance();
  ProcessLoop loop_;
  Handler handler_{"fuzz", "", [](JobContext&, std::string_view) {}};
  std::unique_ptr<ProcessLane> lane_;
  daemon::LaneHandler* handler_in_lane_ = nullptr;
  std::vector<std::shared_ptr<Batch>> batches_;
  std::map<std::uint64_t, Said> said_;                                    // by process
  std::map<std::uint64_t, std::unique_ptr<proto::CommandReader>> asked_;  // likewise
  std::set<std::uint64_t> terminated_;
  std::string pending_;  // not yet written
  std::size_t current_ = 0;
  int descriptor_ = 1;
};

}  // namespace
}  // namespace locksley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley::fuzz;
  static const auto ignored = std::signal(SIGPIPE, SIG_IGN);  // as the daemon does
  static_cast<void>(ignored);
  Input input(data, size);
  const std::uint8_t choice = input.byte();
  const std::uint64_t jobs = input.byte() % 20U;
  Play play(choice, jobs);
  play.run(input.rest());
  play.end();
  return 0;
}
