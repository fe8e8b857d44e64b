// The command layer: an input is what several clients send, in what pieces, and when they go.
// Afterwards each command has had its reply, the numbers of all batches add up, all can be
// cancelled and forgotten, and nothing is left.
//
// The first byte says how the daemon is configured (config_of()), bit 7 that there is a store, bit
// 6 that the daemon is then started anew before the end. Then come the clients' bytes; 0xFF and a
// letter in between is a step:
//   0 … 3  from here on it is this client's bytes, which connects if it has not
//   p      what is there so far is sent, and the daemon works through it
//   w      the same; then there is a pause, in which jobs go on
//   h      the client half-closes     r  it goes away     n  it goes away, and connects anew
//   d      the daemon refuses new work from now on
// 0xFF before anything else is a byte.
#include <array>
#include <map>
#include <memory>
#include <optional>

#include <rocksdb/env.h>

#include "tests/fuzz/daemon_in_process.h"
#include "tests/fuzz/peer.h"
#include "tests/fuzz/target.h"

namespace locksley::fuzz {
namespace {

constexpr std::uint8_t kStep = 0xFF;
constexpr std::size_t kClients = 4;
constexpr int kMostConnections = 12;  // each costs 100 us

// Limits that inputs reach. A user to sign in as would be configured here, and named in sign_in().
config::Config config_of(std::uint8_t choice) {
  config::Config config;
  config.store.path.clear();
  config.limits.max_batch_jobs = (choice & 1) != 0 ? 10 : 2'000;
  config.limits.max_queued_jobs = (choice & 1) != 0 ? 30 : 10'000;
  config.limits.max_payload = config::Bytes{(choice & 2) != 0 ? 20U : 4'096U};
  config.limits.max_queued_bytes = config::Bytes{(choice & 2) != 0 ? 2'000U : 1U << 20};
  config.limits.max_command = config::Bytes{(choice & 4) != 0 ? 2'000U : 1U << 20};
  config.limits.max_clients = (choice & 8) != 0 ? 2 : 100;
  config.limits.output_buffer = config::Bytes{4U << 20};
  config.store.retention = std::chrono::hours((choice & 16) != 0 ? 0 : 1);
  return config;
}

// What a client that looks after the daemon says first.
void sign_in(Peer&) {}

class Play {
 public:
  explicit Play(DaemonInProcess& daemon) : daemon_(daemon) {}

  void run(std::string_view script) {
    while (!script.empty()) {
      const std::size_t step = script.find(static_cast<char>(kStep));
      pending_ += script.substr(0, step);
      if (step == std::string_view::npos || step + 1 == script.size()) break;
      take_step(script[step + 1]);
      script.remove_prefix(step + 2);
    }
    send();
    work(kPause);
  }

  // All clients say that they send no more, and are served to the end.
  void end() {
    for (const auto& peer : peers_) {
      if (peer) peer->half_close();
    }
    daemon_.run_until(
        [this] {
          receive();
          return std::ranges::none_of(peers_, [](const auto& peer) { return peer && peer->is_open(); });
        },
        "a client that sends no more is served and let go");
    for (auto& peer : peers_) peer.reset();
    daemon_.run_until([this] { return daemon_.server().state().stats().connections.get() == 0; },
                      "connections that are closed end");
  }

 private:
  static constexpr auto kPause = std::chrono::milliseconds(2);

  void take_step(char step) {
    switch (step) {
      case '0':
      case '1':
      case '2':
      case '3':
        send();
        current_ = static_cast<std::size_t>(step - '0');
        break;
      case 'p':
        send();
        work(std::chrono::milliseconds(0));
        break;
      case 'w':
        send();
        if (++pauses_ < kMostPauses) work(kPause);
        break;
      case 'h':
        send();
        peer().half_close();
        break;
      case 'r':
        send();
        peer().reset();
        break;
      case 'n':
        send();
        if (connections_ < kMostConnections) peers_[current_].reset();
        break;
      case 'd':
        send();
        daemon_.drain([] {});
        break;
      default:
        pending_ += step;
        break;
    }
  }

  Peer& peer() {
    if (!peers_[current_]) {
      ++connections_;
      peers_[current_] = std::make_unique<Peer>(daemon_);
    }
    return *peers_[current_];
  }

  void send() {
    if (pending_.empty()) return;
    peer().send(pending_);
    pending_.clear();
    has_killed_ = has_killed_ || peer().ledger().has_killed();
  }

  void work(std::chrono::milliseconds pause) {
    const auto until = std::chrono::steady_clock::now() + pause;
    do {
      daemon_.run_for(pause);
      receive();
    } while (std::chrono::steady_clock::now() < until);
  }

  void receive() {
    const bool may_be_cut = has_killed_ || daemon_.server().state().stats().slow_clients_dropped.get() != 0;
    for (const auto& peer : peers_) {
      if (!peer) continue;
      peer->may_be_cut = may_be_cut;
      peer->receive();
    }
  }

  static constexpr int kMostPauses = 10;

  DaemonInProcess& daemon_;
  std::array<std::unique_ptr<Peer>, kClients> peers_;
  std::size_t current_ = 0;
  std::string pending_;  // the current client's, not yet sent
  int connections_ = 0;
  int pauses_ = 0;
  bool has_killed_ = false;
};

std::int64_t number_in(const proto::Reply& map, std::string_view key) {
  const proto::Reply* value = map.find(key);
  if (value == nullptr || !value->to_integer()) fail("a batch's status is whole", std::string(key));
  return *value->to_integer();
}

// The id, if the numbers add up.
std::string check_status(const proto::Reply& status) {
  const proto::Reply* id = status.find("id");
  const proto::Reply* state = status.find("state");
  require(id != nullptr && state != nullptr, "a batch has an id and a state");
  std::int64_t sum = 0;
  for (const std::string_view key : {"queued", "running", "ok", "failed", "cancelled"}) {
    const std::int64_t jobs = number_in(status, key);
    require(jobs >= 0, "there are no less than no jobs");
    sum += jobs;
  }
  require(sum == number_in(status, "jobs"), "jobs are queued, or running, or have ended");
  const bool is_over = state->text == "done" || state->text == "cancelled";
  require(!is_over || number_in(status, "queued") + number_in(status, "running") == 0,
          "of what is over nothing is left to run");
  require(is_over == (number_in(status, "finished_at") != 0), "what is over has an end");
  return id->text;
}

std::vector<std::string> ids_of_all(Peer& peer) {
  std::vector<std::string> ids;
  std::string cursor = "0";
  do {
    const proto::Reply page = peer.ask("LIST COUNT 50 CURSOR " + cursor);
    require(page.elements.size() == 2, "LIST gives a cursor and a page");
    for (const proto::Reply& status : page.elements[1].elements) ids.push_back(check_status(status));
    cursor = page.elements[0].text;
  } while (cursor != "0");
  return ids;
}

// Ids have no spaces; what else they have, quotes may hide.
std::string quoted(const std::string& id) {
  std::string text = "\"";
  for (const char c : id) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// What is to be the same of a batch before and after a restart. Jobs go on meanwhile, so of one
// that is not over only its jobs are.
struct Left {
  bool is_over;
  std::string counts;
};
std::map<std::string, Left> look_at_all(Peer& peer) {
  std::map<std::string, Left> all;
  for (const std::string& id : ids_of_all(peer)) {
    const proto::Reply status = peer.ask("STATUS " + quoted(id));
    if (status.is_error()) continue;
    const bool is_over = number_in(status, "finished_at") != 0;
    std::string counts = std::to_string(number_in(status, "jobs"));
    for (const std::string_view key :
         {"ok", "failed", "cancelled", "retried", "finished_at", "submitted_at"}) {
      if (is_over) counts += ' ' + std::to_string(number_in(status, key));
    }
    all.emplace(id, Left{is_over, std::move(counts)});
  }
  return all;
}

// Whether all jobs have ended that had begun; those of batches that are paused do not begin.
bool comes_to_rest(DaemonInProcess& daemon, Peer& peer) {
  const std::vector<std::string> ids = ids_of_all(peer);
  for (const std::string& id : ids) peer.ask("PAUSE " + quoted(id));
  constexpr int kMostLooks = 20;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    std::int64_t running = 0;
    for (const proto::Reply& tenant : peer.ask("TENANTS").elements) running += number_in(tenant, "running");
    if (running == 0) return true;
    daemon.run_for(std::chrono::milliseconds(2));
  }
  return false;
}

void leave(DaemonInProcess& daemon, Peer& peer) {
  peer.half_close();
  daemon.run_until(
      [&] {
        peer.receive();
        return !peer.is_open();
      },
      "the last client is let go");
}

// Ends the daemon in its usual way and begins another on the same store. Jobs that take long would
// hold it up: then it is left as it is.
void restart(std::optional<DaemonInProcess>& daemon, const config::Config& config, rocksdb::Env& disk) {
  std::map<std::string, Left> before;
  {
    Peer peer(*daemon);
    sign_in(peer);
    if (!comes_to_rest(*daemon, peer)) return;
    before = look_at_all(peer);
    leave(*daemon, peer);
  }
  daemon->stop();
  daemon.reset();
  daemon.emplace(config, &disk);
  Peer peer(*daemon);
  sign_in(peer);
  for (const auto& [id, after] : look_at_all(peer)) {
    const auto found = before.find(id);
    if (found == before.end()) fail("what is there after a restart was there before", id);
    if (!found->second.is_over) continue;
    if (!after.is_over || found->second.counts != after.counts) {
      fail("what was over is the same after a restart", found->second.counts + " / " + after.counts);
    }
  }
  leave(*daemon, peer);
}

void clean_up(DaemonInProcess& daemon) {
  Peer peer(daemon);
  sign_in(peer);
  const std::vector<std::string> ids = ids_of_all(peer);
  for (const std::string& id : ids) peer.ask("CANCEL " + quoted(id));
  for (const std::string& id : ids) {
    const proto::Reply status = peer.ask("WAIT " + quoted(id) + " 20000");
    if (status.is_error()) continue;  // its time to be retained was over
    check_status(status);
    const proto::Reply* state = status.find("state");
    require(state->text == "done" || state->text == "cancelled", "what is cancelled ends");
    peer.ask("EXPLAIN " + quoted(id));
    const proto::Reply results = peer.ask("RESULTS " + quoted(id));
    require(!results.is_error() || results.error_code() == "NOBATCH",
            "what is over can be read, or has gone");
    const proto::Reply forgotten = peer.ask("FORGET " + quoted(id));
    require(forgotten.is_integer(), "FORGET gives a number");
  }
  require(ids_of_all(peer).empty(), "what is forgotten is gone");
  // RUNs whose client has gone end as soon as their jobs do.
  bool is_idle = false;
  daemon.drain([&] { is_idle = true; });
  daemon.run_until([&] { return is_idle; }, "with no batch left there is nothing to do");
  const proto::Reply info = peer.ask("INFO locksley");
  for (const std::string_view line :
       {"active_batches:0\r\n", "retained_batches:0\r\n", "queued_jobs:0\r\n", "queued_bytes:0\r\n"}) {
    if (info.text.find(line) == std::string::npos) fail("no batch is left", info.text);
  }
  leave(daemon, peer);
}

}  // namespace
}  // namespace locksley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley::fuzz;
  Input input(data, size);
  const std::uint8_t choice = input.byte();
  const bool is_stored = (choice & 128) != 0;
  const std::unique_ptr<rocksdb::Env> disk = is_stored ? make_disk() : nullptr;
  std::optional<DaemonInProcess> daemon(std::in_place, config_of(choice), disk.get());
  {
    Play play(*daemon);
    play.run(input.rest());
    play.end();
  }
  if (is_stored && (choice & 64) != 0) restart(daemon, config_of(choice), *disk);
  clean_up(*daemon);
  daemon->stop();
  const auto& stats = daemon->server().state().stats();
  require(stats.connections.get() == 0 && stats.blocked.get() == 0 && stats.subscribers.get() == 0,
          "whoever has gone is not counted");
  return 0;
}
