// An upstream daemon of a test: it knows one batch, keeps a ledger of its jobs, and speaks the
// protocol in bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/argument_list.h"
#include "proto/command_reader.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon::test {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// Payload "p<index>", expected output "r<index>". All checks of the ledger are here: a result
// counts for an index that the lease still holds, and for no other.
class FakeUpstream {
 public:
  explicit FakeUpstream(std::uint64_t jobs) : state_(jobs, kQueued), recorded(jobs, 0), status(jobs) {}

  // ---- What the test sets ----

  std::uint64_t lease_jobs = 8;
  std::vector<std::string> remote = {"echo", "resize"};
  bool holds_settles = false;  // replies of SETTLE, and all after them, come with release()
  bool is_draining = false;
  std::string settle_refusal;  // not empty: the reply to SETTLE
  std::string refuses_join;
  Words addresses;  // of its cluster
  std::string store = "store-1";
  std::int64_t longest_output = 0;  // in the reply to JOIN; 0: not there
  std::int64_t beat_ms = 3'333;     // likewise
  std::int64_t lease_ms = 10'000;   // likewise
  std::string range_template;       // not empty: the batch is a RANGE
  std::uint64_t attempt = 3;        // a restart makes it one higher
  bool tells_attempt = true;        // in the reply to RECLAIM
  bool knows_former = true;         // RECLAIM may have LEASE
  bool knows_grace = true;          // JOIN may have GRACE

  // ---- The connection ----

  void connect() {
    reader_ = std::make_unique<proto::CommandReader>();
    is_open_ = true;
  }
  // What it holds goes back.
  void disconnect() {
    is_open_ = false;
    waiting_ = false;
    out.clear();
    held_.clear();
    for (auto& [name, lease] : leases) give_back(lease, 0);
    leases.clear();
  }
  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto space = reader_->prepare();
      const std::size_t n = std::min(space.size(), bytes.size());
      std::memcpy(space.data(), bytes.data(), n);
      reader_->commit(n);
      bytes.remove_prefix(n);
      proto::Command command;
      while (reader_->next(command) == proto::ReadStatus::kComplete) {
        Words words;
        for (const std::string_view word : command.arguments) words.emplace_back(word);
        execute(words);
      }
    }
  }
  // Bytes to the worker.
  std::string take() { return std::exchange(out, {}); }
  void release() {
    holds_settles = false;
    out += std::exchange(held_, {});
  }
  void push(const Words& order) {
    proto::OutputBuffer buffer;
    proto::ReplyWriter writer(buffer, proto::Protocol::kResp3);
    writer.push(order.size());
    for (const std::string& word : order) {
      const bool is_number = &word == &order.back() && order.size() == 3;
      is_number ? writer.integer(std::stoll(word)) : writer.bulk(word);
    }
    out += buffer.to_string();
  }
  // A CLAIM that waits gets them.
  void add_jobs(std::uint64_t jobs) {
    state_.resize(state_.size() + jobs, kQueued);
    recorded.resize(state_.size(), 0);
    status.resize(state_.size());
    serve_waiting();
  }
  // The lease is gone, as after a silence.
  void lose(const std::string& name) {
    give_back(leases.at(name), 0);
    leases.erase(name);
  }
  // Another worker has taken these jobs and has settled them.
  void settle_elsewhere(std::uint64_t low, std::uint64_t high) {
    for (std::uint64_t i = low; i < high; ++i) {
      ASSERT_EQ(state_[i], kQueued);
      state_[i] = kEnded;
      ++recorded[i];
    }
  }

  bool all_recorded() const {
    return std::ranges::all_of(state_, [](int state) { return state == kEnded; });
  }

  std::chrono::milliseconds timeout{0};  // of the jobs that are leased

  struct Lease {
    std::uint64_t first, count;
    std::uint32_t slot;
  };
  std::map<std::string, Lease> leases;
  std::vector<Words> commands;  // all that were executed
  std::string out;

  std::size_t count_of(const std::string& name) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(commands, [&](const Words& words) { return words.front() == name; }));
  }

 private:
  static constexpr int kQueued = 0;
  static constexpr int kHeld = 1;
  static constexpr int kEnded = 2;
  std::vector<int> state_;

 public:
  std::vector<int> recorded;  // how often, by index
  std::vector<std::string> status;

 private:
  void execute(const Words& words) {
    commands.push_back(words);
    proto::OutputBuffer buffer;
    proto::ReplyWriter writer(buffer, proto::Protocol::kResp3);
    if (waiting_) {
      waiting_ = false;
      writer.null();
      say(buffer);
    }
    reply(words, writer);
    say(buffer);
    serve_waiting();
  }
  void say(proto::OutputBuffer& buffer) {
    (held_.empty() ? out : held_) += buffer.to_string();
    buffer.consume(buffer.size());
  }

  void reply(const Words& words, proto::ReplyWriter& writer) {
    const std::string& name = words.front();
    if (name == "HELLO") return hello(words, writer);
    if (name == "JOIN") return join(words, writer);
    if (name == "CLAIM") return claim(words, writer);
    if (name == "SETTLE") return settle(words, writer);
    if (name == "YIELD") return yield(words, writer);
    if (name == "RECLAIM") return reclaim(words, writer);
    if (name == "BEAT") return writer.array(0);
    if (name == "LEAVE") {
      for (auto& [lease_name, lease] : leases) give_back(lease, 0);
      leases.clear();
      return writer.ok();
    }
    ADD_FAILURE() << "unknown command " << name;
  }

  void hello(const Words& words, proto::ReplyWriter& writer) {
    if (words.size() > 2 && words.back() != "secret") return writer.error("WRONGPASS invalid password");
    writer.map(1);
    writer.bulk("proto");
    writer.integer(3);
  }

  void join(const Words& words, proto::ReplyWriter& writer) {
    if (!refuses_join.empty()) return writer.error(refuses_join);
    if (!knows_grace && std::ranges::find(words, "GRACE") != words.end())
      return writer.error("ERR syntax error at 'GRACE'");
    const auto handlers = std::ranges::find(words, "HANDLERS") + 1;
    EXPECT_EQ(*(handlers - 2), "PARTIAL");
    std::vector<std::string> not_served;
    std::copy_if(handlers, words.end(), std::back_inserter(not_served), [&](const std::string& handler) {
      return std::ranges::find(remote, handler) == remote.end();
    });
    if (not_served.size() == static_cast<std::size_t>(words.end() - handlers))
      return writer.error("NOHANDLER no handler '" + not_served.front() + "' for remote workers");
    slots_ = static_cast<std::uint32_t>(std::stoul(words[3]));
    writer.map(longest_output == 0 ? 6 : 7);
    writer.bulk("worker");
    writer.bulk(words[1]);
    writer.bulk("not_served");
    writer.array(not_served.size());
    for (const std::string& handler : not_served) writer.bulk(handler);
    writer.bulk("beat_ms");
    writer.integer(beat_ms);
    writer.bulk("lease_ms");
    writer.integer(lease_ms);
    writer.bulk("addresses");
    writer.array(addresses.size());
    for (const std::string& address : addresses) writer.bulk(address);
    writer.bulk("store");
    writer.bulk(store);
    if (longest_output == 0) return;
    writer.bulk("longest_output");
    writer.integer(longest_output);
  }

  std::size_t leases_of(std::uint32_t slot) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(leases, [&](const auto& entry) { return entry.second.slot == slot; }));
  }

  void claim(const Words& words, proto::ReplyWriter& writer) {
    const auto slot = static_cast<std::uint32_t>(std::stoul(words[2]));
    EXPECT_LT(slot, slots_);
    if (is_draining) return writer.error("DRAINING the daemon is about to stop");
    if (leases_of(slot) >= 2) return writer.error("ERR a slot has at most 2 leases");
    if (grant(slot, writer)) return;
    if (words.size() < 5) return writer.null();
    waiting_ = true;
    waiting_slot_ = slot;
  }
  bool grant(std::uint32_t slot, proto::ReplyWriter& writer) {
    const auto first = std::ranges::find(state_, kQueued);
    if (first == state_.end()) return false;
    const auto low = static_cast<std::uint64_t>(first - state_.begin());
    std::uint64_t high = low;
    while (high < state_.size() && high - low < lease_jobs && state_[high] == kQueued) state_[high++] = kHeld;
    const std::string name = "life-" + std::to_string(++last_lease_);
    leases[name] = {.first = low, .count = high - low, .slot = slot};
    writer.array(14);
    writer.bulk(name);
    writer.integer(7);
    writer.bulk("echo");
    writer.integer(static_cast<std::int64_t>(low));
    writer.integer(static_cast<std::int64_t>(high - low));
    writer.integer(static_cast<std::int64_t>(attempt));
    writer.integer(timeout.count());
    writer.null();
    writer.array(range_template.empty() ? high - low : 0);
    if (range_template.empty()) {
      for (std::uint64_t i = low; i < high; ++i) writer.bulk("p" + std::to_string(i));
    }
    writer.bulk("b7");
    writer.bulk("alice");
    writer.null();
    if (range_template.empty()) {
      writer.null();
    } else {
      writer.array(2);
      writer.integer(static_cast<std::int64_t>(low) + 1'000);
      writer.bulk(range_template);
    }
    writer.null();
    return true;
  }
  void serve_waiting() {
    if (!waiting_) return;
    proto::OutputBuffer buffer;
    proto::ReplyWriter writer(buffer, proto::Protocol::kResp3);
    if (!grant(waiting_slot_, writer)) return;
    waiting_ = false;
    say(buffer);
  }

  void settle(const Words& words, proto::ReplyWriter& writer) {
    const auto found = leases.find(words[1]);
    if (!settle_refusal.empty()) return writer.error(settle_refusal);
    if (found == leases.end()) return writer.error("LOST the lease is gone");
    const Lease& lease = found->second;
    const std::uint64_t first = std::stoull(words[3]);
    const std::uint64_t count = words.size() - 4;
    if (first < lease.first || first + count > lease.first + lease.count) {
      ADD_FAILURE() << "results beyond the range of the lease";
      return writer.error("ERR the lease has other jobs; nothing was recorded");
    }
    std::int64_t counted = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
      if (state_[i] != kHeld || !holds(lease, i)) continue;
      if (longest_output == 0) {
        EXPECT_EQ(words[4 + (i - first)], "r" + std::to_string(i));
      }
      state_[i] = kEnded;
      ++recorded[i];
      status[i] = words[2];
      ++counted;
    }
    writer.array(2);
    writer.integer(counted);
    writer.integer(static_cast<std::int64_t>(left(lease)));
    if (left(lease) == 0) leases.erase(found);
    if (holds_settles && held_.empty()) {
      held_ = writer.buffer().to_string();
      writer.buffer().consume(writer.buffer().size());
    }
  }
  // Ranges of two leases do not overlap but for jobs that have ended or are held by the later one,
  // which has them alone.
  bool holds(const Lease& lease, std::uint64_t i) const {
    for (const auto& [name, other] : leases) {
      if (&other != &lease && i >= other.first && i < other.first + other.count) return false;
    }
    return i >= lease.first && i < lease.first + lease.count;
  }
  std::uint64_t left(const Lease& lease) const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = lease.first; i < lease.first + lease.count; ++i) sum += state_[i] == kHeld ? 1 : 0;
    return sum;
  }
  std::uint64_t give_back(Lease& lease, std::uint64_t from) {
    std::uint64_t count = 0;
    from = std::max(from, lease.first);
    const std::uint64_t high = lease.first + lease.count;
    for (std::uint64_t i = from; i < high; ++i) {
      if (state_[i] != kHeld) continue;
      state_[i] = kQueued;
      ++count;
    }
    lease.count = from < high ? from - lease.first : lease.count;
    return count;
  }

  void yield(const Words& words, proto::ReplyWriter& writer) {
    const auto found = leases.find(words[1]);
    if (found == leases.end()) return writer.error("LOST the lease is gone");
    const std::uint64_t from = words.size() > 2 ? std::stoull(words[2]) : 0;
    writer.integer(static_cast<std::int64_t>(give_back(found->second, from)));
    if (left(found->second) == 0) leases.erase(found);
  }

  void reclaim(const Words& words, proto::ReplyWriter& writer) {
    EXPECT_EQ(words[1], "7");
    if (!knows_former && words.size() > 7) return writer.error("ERR syntax error at 'LEASE'");
    const std::uint64_t told = std::stoull(words[2]);
    if (told != attempt && told + 1 != attempt)
      return writer.error("LOST none of these jobs is queued for this attempt");
    const std::uint64_t low = std::stoull(words[3]);
    const std::uint64_t high = std::stoull(words[4]);
    const auto slot = static_cast<std::uint32_t>(std::stoul(words[6]));
    if (leases_of(slot) >= 2) {
      ADD_FAILURE() << "RECLAIM for a slot that is full";
      return writer.error("ERR a slot has at most 2 leases");
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
    for (std::uint64_t i = low; i < high; ++i) {
      if (state_[i] != kQueued) continue;
      state_[i] = kHeld;
      if (parts.empty() || parts.back().second != i) parts.emplace_back(i, i);
      ++parts.back().second;
    }
    if (parts.empty()) return writer.error("LOST none of these jobs is queued for this attempt");
    const std::string name = "life-" + std::to_string(++last_lease_);
    const std::uint64_t first = parts.front().first;
    leases[name] = {.first = first, .count = parts.back().second - first, .slot = slot};
    writer.array(tells_attempt ? 3 : 2);
    writer.bulk(name);
    writer.array(parts.size());
    for (const auto& [from, to] : parts) {
      writer.array(2);
      writer.integer(static_cast<std::int64_t>(from));
      writer.integer(static_cast<std::int64_t>(to));
    }
    if (tells_attempt) writer.integer(static_cast<std::int64_t>(attempt));
  }

  std::unique_ptr<proto::CommandReader> reader_;
  bool is_open_ = false;
  bool waiting_ = false;
  std::uint32_t waiting_slot_ = 0;
  std::uint32_t slots_ = 0;
  std::uint64_t last_lease_ = 0;
  std::string held_;
};

}  // namespace locksley::daemon::test
