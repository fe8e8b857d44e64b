#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/lane.h"
#include "core/pool.h"
#include "daemon/log_line.h"
#include "daemon/rate_gate.h"
#include "daemon/server/batches.h"
#include "daemon/server/config_changes.h"
#include "daemon/server/handler_directory.h"
#include "daemon/server/io.h"
#include "daemon/server/listener.h"
#include "daemon/server/server_stats.h"
#include "daemon/server/users.h"
#include "daemon/tls/context.h"
#include "daemon/tls/handshake_queue.h"
#include "proto/limits.h"

namespace locksley::daemon {

class Authenticator;
class Session;

// What a peer can cause and an operator should hear of, once a minute each.
enum class Warning : std::uint8_t {
  kCrossProtocol,
  kSlowClient,
  kInputMemory,
  kMaxClients,
  kDenied,
  kWrongPassword,
  kLoginTimeout,
  kHandshake,
  kWrongPort,
  kClientMemory,
};
inline constexpr std::size_t kWarnings = 10;

// The wire protocol's side of the daemon: its socket, its connections, and the batches that they ask for.
//
// Owned by main(). The handlers, lanes and the pool outlive it; so does the io_context, which no longer runs
// when it is destroyed, and from which all connections have gone by then (close()). Everything runs on the
// one thread that runs the io_context, the I/O thread, and needs no locks; what the workers tell comes
// through ChangeQueue. Nothing blocks.
class Server {
 public:
  struct Parts {
    asio::io_context& io;
    HandlerDirectory& handlers;
    std::vector<Lane*> lanes;  // that there are; add_lane() tells of more
    Pool& pool;
    Store* store;  // null: everything is in memory
    Authenticator& authenticator;
    std::shared_ptr<spdlog::logger> log;
    std::string version;  // of the daemon
  };

  Server(Parts parts, config::Config config);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Clients are served from now on. The error names the address and what the system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen();
  // By TLS from now on, or another certificate; null: plain. Connections that there are stay as they are.
  void use_tls(std::shared_ptr<const TlsContext> context) { tls_ = std::move(context); }
  const TlsContext* tls() const { return tls_.get(); }
  HandshakeQueue& handshakes() { return handshakes_; }
  // What is in force from now on. Connections of users that are there no more are closed.
  void reconfigure(config::Config config);
  // Who serves CONFIG SET and CONFIG RELOAD; before listen().
  void on_config(ConfigChanges changes) { config_changes_ = std::move(changes); }
  const ConfigChanges& config_changes() const { return config_changes_; }
  // There is this handler; this lane, which outlives this. Known ones do no harm.
  void add_handler(const std::string& name) { stats_.add_handler(name); }
  void add_lane(Lane& lane);
  // New work is refused from now on; `on_idle` once nothing that was accepted is left to do.
  void drain(std::function<void()> on_idle) { batches_.drain(std::move(on_idle)); }
  // Accepts no more connections, lets those that there are take what is written for them, for kCloseGrace at
  // most, and calls `on_closed` when none is left.
  void close(std::function<void()> on_closed);
  static constexpr auto kCloseGrace = std::chrono::seconds(1);  // guess
  static constexpr std::uint64_t kRoundPages = 1 << 20;         // two or three milliseconds of writing
  static constexpr std::uint64_t kLeastPage = 64 * 1024;        // some 100 us

  // ---- For connections and commands ----

  IoExecutor executor() const { return parts_.io.get_executor(); }
  const config::Config& config() const { return config_; }
  ServerStats& stats() { return stats_; }
  const ServerStats& stats() const { return stats_; }
  Batches& batches() { return batches_; }
  // Null: all is in memory only.
  const Store* store() const { return parts_.store; }
  const Users& users() const { return users_; }
  Authenticator& authenticator() const { return parts_.authenticator; }
  const HandlerDirectory& handlers() const { return parts_.handlers; }
  const std::vector<Lane*>& lanes() const { return lanes_; }
  Pool& pool() const { return parts_.pool; }
  spdlog::logger& log() { return *parts_.log; }
  Instant started_at() const { return started_at_; }
  std::uint16_t port() const { return port_; }
  const std::string& version() const { return parts_.version; }
  std::uint64_t batches_accepted() const;

  // What a connection's reader may take once it is known who the peer is.
  proto::Limits reader_limits() const;
  // A new connection, or a refusal.
  void accept(Socket socket);
  // By id; null if there is none.
  Session* session(std::uint64_t id) const;
  const std::map<std::uint64_t, std::shared_ptr<Session>>& sessions() const { return sessions_; }
  void session_ended(Session& session, std::uint64_t input_memory);

  // A connection has replies that wait for the store: it wants to hear of the next outcome.
  void holds_replies(std::uint64_t session) { holding_.push_back(session); }
  // Calls `told` once the writes up to this ticket are on the disk, with an empty text, or were refused, with
  // the error reply: at once if that is known. Never, if this ends before.
  using StoreTold = std::function<void(std::string error)>;
  void when_stored(Ticket ticket, StoreTold told);
  // A connection's memory for input changed. False if all together hold more than limits.max_queued_bytes,
  // and this one more than its share.
  bool account_input(std::uint64_t memory, std::uint64_t before);
  // What a connection holds beside that changed. While all together hold more than limits.client_memory,
  // those that hold most are dropped, the caller perhaps among them.
  void account_output(std::uint64_t memory, std::uint64_t before);
  void forget_output(std::uint64_t memory) { output_memory_ -= memory; }
  // What a page of results may have: of a turn of all connections, the first pages together kRoundPages; the
  // others kLeastPage each, so that hundreds that read at once do not hold up who asks for little.
  std::uint64_t page_room() const;
  // One of so many bytes was written.
  void count_page(std::uint64_t bytes);
  void count_subscriber(int change);
  void count_blocked(int change);
  // Whether a client waits in a blocking command.
  bool has_blocked() const { return stats_.blocked.get() != 0 || !holding_.empty() || !awaiting_.empty(); }
  void warn_sometimes(Warning kind, std::string_view peer, LogLine what);

 private:
  void look_whether_closed();
  void tell_authenticator();
  void tell_holding(const Outcome& outcome);
  // A lane that serves tenants by their weights from now on, as lanes() do.
  void weigh_tenants(Lane& lane) const;

  const Parts parts_;
  std::vector<Lane*> lanes_;
  config::Config config_;
  const Instant started_at_ = std::chrono::steady_clock::now();
  ServerStats stats_;
  Batches batches_;
  Users users_;
  Listener listener_;
  std::shared_ptr<const TlsContext> tls_;  // null: plain
  HandshakeQueue handshakes_;
  std::uint16_t port_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::vector<std::uint64_t> holding_;                  // connections with replies that wait for the store
  std::vector<std::pair<Ticket, StoreTold>> awaiting_;  // of the HTTP side, the same
  std::uint64_t next_session_ = 1;
  std::uint64_t input_memory_ = 0;
  std::uint64_t output_memory_ = 0;
  std::uint64_t round_pages_ = 0;  // bytes of results since all connections last had a turn
  std::array<RateGate, kWarnings> warnings_;
  Timer close_timer_;
  std::function<void()> on_closed_;
  ConfigChanges config_changes_;
};

}  // namespace locksley::daemon
