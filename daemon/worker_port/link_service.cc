#include "daemon/worker_port/link_service.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io_loop.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/worker_port/link_life.h"
#include "daemon/worker_port/worker_session.h"

namespace locksley::daemon {

namespace {

// How often the link asks whether the store has room again. A guess.
constexpr auto kRoomPeriod = std::chrono::milliseconds(10);
// InputBudget::kPatience counts these.
constexpr auto kInputPeriod = std::chrono::seconds(1);
// Workers wait for 30 s for bytes from the daemon.
constexpr std::uint64_t kLooksToShowLife = 5;
// A timer that is this late shows that the thread did not run, and has read nothing. The workers of
// the shortest leases send a BEAT every 333 ms.
constexpr auto kDeaf = std::chrono::milliseconds(300);
// How many bytes the system accepts for a peer beyond those in flight. With more, the link could
// not see that a slow peer receives a long reply. A guess: some ms of a fast link.
constexpr int kMostNotSent = 256 * 1024;

}  // namespace

LinkService::LinkService(Parts parts, const WorkerLinkOptions& options, MachinesBoard& board,
                         std::shared_ptr<const WorkerDirectory> directory)
    : parts_(std::move(parts)),
      mailbox_(IoMailbox::of(io_)),
      work_(io_.get_executor()),
      listener_(io_, parts_.log),
      handshakes_(io_.get_executor()),
      turns_(io_.get_executor(), stretches_.polls),
      slices_(io_.get_executor()),
      input_(options.max_leased_bytes),
      host_(parts_.store, input_, std::move(directory)),
      link_(std::make_unique<WorkerLink>(host_, options, random_life(), boot_time())),
      checking_certificates_(slices_),
      tickets_(parts_.store),
      publisher_(io_, slices_, board, host_, tickets_, *link_,
                 [this](WorkerLink::Id id) { return peer_of(id); }),
      timer_(io_),
      room_timer_(io_),
      input_timer_(io_),
      stop_timer_(io_) {}

LinkService::~LinkService() = default;

std::expected<asio::ip::tcp::endpoint, std::string> LinkService::listen(BoundPort port) {
  return listener_.listen(std::move(port), [this](Socket socket) {
    kLinkThread.assert_held();
    accept(std::move(socket));
  });
}

void LinkService::run(std::function<bool()> may_poll) {
  // While a lease is out its result may come soon.
  const auto awaits_worker = [this] {
    kLinkThread.assert_held();
    return link_ != nullptr &&
           std::ranges::any_of(link_->lanes(), [](const auto& lane) { return lane.second.leases != 0; });
  };
  run_io_loop(io_, {.may_poll = std::move(may_poll), .awaits_worker = awaits_worker}, stretches_);
}

void LinkService::accept(Socket socket) {
  asio::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return;  // gone already
  socket.non_blocking(true, error);
  const auto refuse = [&, is_plain = directory().tls == nullptr](std::string_view reply) {
    // A TLS client would not understand plain text.
    if (is_plain) socket.write_some(asio::buffer(reply.data(), reply.size()), error);
  };
  if (!directory().has_users && !is_loopback(remote.address())) {
    return refuse("-DENIED no users are configured, so only connections from this machine are served\r\n");
  }
  if (!make_room()) return refuse("-ERR max number of clients reached\r\n");
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  socket.set_option(asio::socket_base::keep_alive(true), error);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostNotSent, sizeof kMostNotSent);
  auto session =
      std::make_shared<WorkerSession>(*this, Transport(std::move(socket), directory().tls), to_text(remote));
  sessions_.emplace(session->id(), session);
  asio::co_spawn(io_.get_executor(), WorkerSession::serve(std::move(session)), asio::detached);
}

bool LinkService::make_room() {
  if (sessions_.size() < directory().max_clients) return true;
  if (sessions_.size() >= directory().max_clients + Strangers::kMostAbove) return false;
  const auto id = strangers_.first_to_go(now());
  if (!id) return false;
  sessions_.at(*id)->give_way();
  return true;
}

void LinkService::set_directory(std::shared_ptr<const WorkerDirectory> directory) {
  const auto before = host_.set_directory(std::move(directory));
  if (link_ == nullptr) return;
  link_->handlers_changed();
  follow_handlers();
  for (const auto& [id, session] : sessions_) session->directory_changed();
  if (before->tls != nullptr && !before->tls->has_authorities_of(host_.directory().tls.get()))
    check_certificates();
  publisher_.publish();
  // Claims may have ended or been served, and the timer for the end of the hold after a restart may
  // have to be set.
  after_link();
}

void LinkService::follow_handlers() {
  constexpr std::size_t kBetweenLooks = 64;  // names of handlers: some 30 us
  if (is_following_ || link_->follow_handlers(kBetweenLooks, boot_time())) return;
  is_following_ = true;
  slices_.add([this](Instant until) {
    kLinkThread.assert_held();
    while (link_ != nullptr && !link_->follow_handlers(kBetweenLooks, boot_time())) {
      if (now() < until) continue;
      after_link();
      return false;
    }
    is_following_ = false;
    after_link();
    return true;
  });
}

// Works in slices: one check takes some 0.1 ms.
void LinkService::check_certificates() {
  checking_certificates_.restart([this, next = WorkerLink::Id{0}](Instant until) mutable {
    kLinkThread.assert_held();
    for (auto at = sessions_.lower_bound(next); at != sessions_.end(); ++at) {
      at->second->authorities_changed();
      next = at->first + 1;
      if (now() >= until) return false;
    }
    return true;
  });
}

void LinkService::store_advanced() {
  if (link_ == nullptr) return;
  tickets_.note_written(*link_);
  after_link();
}

void LinkService::drain() {
  if (link_ == nullptr) return;
  link_->drain(boot_time());
  after_link();
}

void LinkService::stop() {
  if (link_ == nullptr) return;
  constexpr Nanoseconds kMost = std::chrono::milliseconds(500);  // a guess: a disk that takes longer fails
  listener_.close();
  stop_by_ = boot_time() + kMost;
  stop_once_replied();
}

void LinkService::stop_once_replied() {
  after_link();
  if (!link_->awaits_store() || boot_time() >= stop_by_) return end();
  constexpr Nanoseconds kPeriod =
      std::chrono::milliseconds(1);  // nothing tells this thread of the store any more
  stop_timer_.expires_after(kPeriod);
  stop_timer_.async_wait([this](const asio::error_code&) {
    kLinkThread.assert_held();
    stop_once_replied();
  });
}

void LinkService::end() {
  timer_.cancel();
  room_timer_.cancel();
  input_timer_.cancel();
  publisher_.stop();
  work_.reset();
  for (const auto& [id, session] : sessions_) session->drop("the daemon ends");
  link_.reset();
}

void LinkService::lane_has_work() {
  // [link-posted] acq_rel: the caller's earlier writes are visible to this post, or to one that is
  // on its way already.
  if (work_is_posted_.exchange(true, std::memory_order_acq_rel)) return;
  mailbox_.post([this] {
    kLinkThread.assert_held();
    work_is_posted_.store(false, std::memory_order_seq_cst);
    if (link_ == nullptr) return;
    link_->wake(boot_time());
    after_link();
  });
}

void LinkService::lane_has_stops() {
  // [link-posted] acq_rel: as above.
  if (stops_are_posted_.exchange(true, std::memory_order_acq_rel)) return;
  mailbox_.post([this] {
    kLinkThread.assert_held();
    stops_are_posted_.store(false, std::memory_order_seq_cst);
    if (link_ == nullptr) return;
    link_->check_batches(boot_time());
    after_link();
  });
}

void LinkService::after_link() {
  if (link_ == nullptr) return;
  tickets_.after_link(*link_);
  for (const WorkerLink::Id id : link_->take_ready()) {
    if (const auto session = sessions_.find(id); session != sessions_.end()) session->second->send();
  }
  arm_timer();
  if (link_->lacks_room() || !host_.has_room()) watch_room();
  publisher_.publish_soon();
}

void LinkService::arm_timer() {
  const auto next = link_->next_timer();
  // A timer that goes off too early does no harm, so it is moved only to an earlier instant.
  if (!next || (timer_at_ && *timer_at_ <= *next)) return;
  timer_at_ = next;
  timer_.expires_after(std::max(Nanoseconds{0}, *next - boot_time()));
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kLinkThread.assert_held();
    const auto due = std::exchange(timer_at_, std::nullopt);
    if (link_ == nullptr) return;
    const Nanoseconds now = boot_time();
    if (due && now - *due >= kDeaf) link_->listens_again(now);
    link_->advance(now);
    after_link();
  });
}

void LinkService::watch_room() {
  room_timer_.set(kRoomPeriod, [this] {
    kLinkThread.assert_held();
    if (link_ == nullptr) return;
    if (host_.has_room()) {
      for (const auto& [id, session] : sessions_) session->wake();
    } else {
      watch_room();  // even if there is room a moment later: paused connections were not woken
    }
    link_->wake(boot_time());
    after_link();
  });
}

void LinkService::watch_input() {
  input_timer_.set(kInputPeriod, [this] {
    kLinkThread.assert_held();
    if (link_ == nullptr || !input_.is_awaited()) return;
    watch_input();
    if (!host_.has_room()) return;  // no connection is read
    input_.begin_look();
    const bool shows_life = ++input_looks_ % kLooksToShowLife == 0;
    for (const auto& [id, session] : sessions_) {
      session->look_at_input();
      if (shows_life) session->show_life();
    }
    after_link();
  });
}

const std::string* LinkService::peer_of(WorkerLink::Id id) const {
  kLinkThread.assert_held();
  const auto session = sessions_.find(id);
  return session == sessions_.end() ? nullptr : &session->second->peer();
}

void LinkService::ended(WorkerSession& session) {
  const WorkerLink::Id id = session.id();
  if (link_ != nullptr) link_->disconnect(id, boot_time());
  sessions_.erase(id);
  after_link();
}

}  // namespace locksley::daemon
