// A link to remote workers with a host, lanes and a clock of the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"
#include "daemon/workers/worker_link.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon::test {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// The daemon of a test: handlers with a lane each, batches by number, and what may be switched off.
class FakeHost final : public WorkerHost {
 public:
  struct Served {
    explicit Served(const std::string& name) : handler(name, "", [](JobContext&, std::string_view) {}) {}
    Handler handler;
    std::unique_ptr<Lane> lane;  // null: that of another handler
    HandlerPlace place;
  };

  bool may_work(std::string_view user) override { return user != "stranger"; }
  bool may_serve(std::string_view user, std::string_view handler) override {
    return handler != forbidden && (user != "limited" || handler == "echo");
  }
  HandlerPlace place_of(std::string_view handler) override {
    ++places_looked_up;
    const auto found = served.find(std::string(handler));
    return found == served.end() ? HandlerPlace{} : found->second->place;
  }
  std::vector<std::string> handlers_for(std::string_view user) override {
    std::vector<std::string> names;
    for (const auto& [name, by] : served) {
      if (may_serve(user, name)) names.push_back(name);
    }
    return names;
  }
  std::vector<HandlerPlace> places() override {
    std::vector<HandlerPlace> result;
    for (const auto& [name, by] : served) result.push_back(by->place);
    return result;
  }
  Lane* lane_of(const std::string& handler) { return served.at(handler)->place.lane; }
  std::uint64_t number_of(const Batch& batch) override {
    for (const auto& [number, known] : batches) {
      if (known.get() == &batch) return number;
    }
    return 0;
  }
  std::shared_ptr<Batch> batch_of(std::uint64_t number) override {
    const auto found = batches.find(number);
    return found == batches.end() ? nullptr : found->second;
  }
  bool has_room() override { return room; }
  std::uint64_t last_write() override { return writes; }
  std::optional<std::string> join_refusal() override { return elsewhere; }
  std::vector<std::string> addresses() override { return {"queue:7771"}; }
  const std::string& store() override { return store_name; }

  void serve(const std::string& name) {
    auto by = std::make_unique<Served>(name);
    by->lane = std::make_unique<Lane>(name, FairRing::Options{.quantum = 1ms, .parallelism = 1});
    by->place = {.lane = by->lane.get(), .gate = 0};
    served.emplace(name, std::move(by));
  }
  // Another handler in the lane of `other`.
  void serve_beside(const std::string& name, const std::string& other) {
    auto by = std::make_unique<Served>(name);
    Lane& lane = *lane_of(other);
    by->place = {.lane = &lane, .gate = lane.gates().add({}).value()};
    served.emplace(name, std::move(by));
  }
  // Batch number `last_batch`, with the id b<number>.
  std::shared_ptr<Batch> submit(const std::string& handler, std::uint64_t jobs, BatchOptions options = {},
                                std::unique_ptr<PayloadSource> payloads = nullptr) {
    options.id = "b" + std::to_string(++last_batch);
    if (payloads == nullptr)
      payloads = std::make_unique<StringPayloads>(std::vector<std::string>(jobs, "in"));
    Served& by = *served.at(handler);
    options.gate = by.place.gate;
    auto batch = std::make_shared<Batch>(std::move(options), by.handler, std::move(payloads));
    batches[last_batch] = batch;
    by.place.lane->submit(batch, jobs, /*open=*/false);
    return batch;
  }

  std::map<std::string, std::unique_ptr<Served>> served;
  std::map<std::uint64_t, std::shared_ptr<Batch>> batches;
  std::uint64_t last_batch = 0;
  std::uint64_t writes = 0;
  std::size_t places_looked_up = 0;
  bool room = true;
  std::string forbidden;  // a handler
  std::optional<std::string> elsewhere;
  std::string store_name = "store-1";
};

class WorkerLinkFixture : public ::testing::Test {
 protected:
  WorkerLinkFixture() {
    host.serve("echo");
    host.serve("resize");
  }

  WorkerLink::Id connect(const std::string& user = "renderer",
                         proto::Protocol protocol = proto::Protocol::kResp2) {
    return link->connect(user, protocol);
  }
  // The reply to a command, with spaces for line ends; "" if there is none yet.
  std::string run(WorkerLink::Id id, const Words& words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    link->execute(id, proto::ArgumentList::copy_of(views), now);
    return sent(id);
  }
  std::string say(WorkerLink::Id id, const std::string& line) { return run(id, split(line)); }
  // What was sent since the last call.
  std::string sent(WorkerLink::Id id) {
    proto::OutputBuffer& output = link->output(id);
    std::string text = output.to_string();
    (void)link->sent(id, output.size());
    std::string result;
    for (const std::string& word : split(text)) result += (result.empty() ? "" : " ") + word;
    return result;
  }
  static Words split(const std::string& line) {
    std::istringstream in(line);
    Words words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
  }
  // A worker that has joined for `echo`.
  WorkerLink::Id joined(std::uint32_t slots = 2, const std::string& more = "") {
    const WorkerLink::Id id = connect();
    EXPECT_EQ(say(id, "JOIN w SLOTS " + std::to_string(slots) + more + " HANDLERS echo").front(), '*');
    return id;
  }
  WorkerLink::Id joined_with_pushes(std::uint32_t slots = 2) {
    const WorkerLink::Id id = connect("renderer", proto::Protocol::kResp3);
    EXPECT_EQ(say(id, "JOIN p SLOTS " + std::to_string(slots) + " PUSH HANDLERS echo").front(), '%');
    return id;
  }

  struct Granted {
    std::string lease;
    std::string batch;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    explicit operator bool() const { return count != 0; }
  };
  // The beginning of a CLAIM's reply.
  static Granted parse(const std::string& reply) {
    const Words words = split(reply);
    if (words.size() < 8 || words[0] != "*14") return {};
    return {.lease = words[2],
            .batch = words[3].substr(1),
            .first = std::stoull(words[6].substr(1)),
            .count = std::stoull(words[7].substr(1))};
  }
  Granted claim(WorkerLink::Id id, const std::string& options = "") {
    return parse(say(id, "CLAIM " + options));
  }
  // A claim of exactly the jobs from `first` on, by way of RECLAIM.
  std::string reclaimed(WorkerLink::Id id, const std::string& rest) {
    const Words words = split(say(id, "RECLAIM " + rest));
    return words.size() > 2 && words[0] == "*3" ? words[2] : "";
  }
  // All jobs of the lease end well.
  std::string settle_all(WorkerLink::Id id, const Granted& lease, const std::string& status = "ok") {
    Words words{"SETTLE", lease.lease, status, std::to_string(lease.first)};
    for (std::uint64_t i = 0; i < lease.count; ++i) words.push_back("out");
    return run(id, words);
  }
  void pass(Nanoseconds time) {
    now += time;
    link->advance(now);
  }
  void restart(WorkerLinkOptions with) {
    link.reset();
    link = std::make_unique<WorkerLink>(host, with, 43, now);
  }
  // The host's handlers have changed, and all workers follow.
  void handlers_changed() {
    link->handlers_changed();
    while (!link->follow_handlers(1, now)) {
    }
  }
  Nanoseconds busy(const std::string& handler = "echo") {
    Nanoseconds sum{};
    for (const TenantView& tenant : host.lane_of(handler)->view().snapshot(0).tenants) sum += tenant.busy;
    return sum;
  }
  RingSnapshot ring() { return host.lane_of("echo")->view().snapshot(0); }

  FakeHost host;
  Nanoseconds now = 1000s;
  std::unique_ptr<WorkerLink> link = std::make_unique<WorkerLink>(host, WorkerLinkOptions{}, 42, now);
};

}  // namespace locksley::daemon::test
