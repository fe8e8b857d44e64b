#include "daemon/worker_port/worker_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/net/tcp_round_trip.h"
#include "daemon/worker_port/link_service.h"
#include "proto/hello.h"

namespace locksley::daemon {

WorkerSession::WorkerSession(LinkService& service, Transport transport, std::string peer)
    : service_(service),
      connection_(std::move(transport), std::move(peer), service.turns(), service.io().get_executor()),
      id_(service.link().connect({}, proto::Protocol::kResp2)),
      reader_(proto::Limits::before_authentication()),
      input_(service.input(), *this),
      stranger_(service.strangers(), id_, connection_.transport().address()) {
  stranger_.enter(connection_.connected_at());
}

WorkerSession::~WorkerSession() = default;

Coroutine<void> WorkerSession::serve(std::shared_ptr<WorkerSession> self) {
  kLinkThread.assert_held();
  try {
    co_await self->converse();
  } catch (const std::exception& error) {
    LogLine("connection of a worker ended by an error")
        .with("peer", self->peer())
        .with("reason", error.what())
        .write(self->service_.log(), spdlog::level::err);
  }
  self->end();
}

Coroutine<void> WorkerSession::converse() {
  kLinkThread.assert_held();
  if (life().now() == Life::kHandshake && !co_await shake_hands()) co_return;
  // Without users every peer is logged in; a certificate may name its user.
  if (!is_logged_in() && !is_closing()) {
    LoginQuestion question;
    question.address = transport().address().to_string();
    if (transport().is_tls()) question.name = transport().peer_common_name();
    if (!question.name.empty()) question.by = Credential::kCertificate;
    if (!co_await log_in(std::move(question))) {
      if (is_dropped()) co_return;
      life().go_to(Life::kLastReply);  // the refusal
    }
  }
  bool needs_input = true;  // as in Session::converse()
  while (!is_dropped()) {
    if (!is_logged_in() && now() >= connection_.connected_at() + service_.directory().login_timeout)
      co_return;
    if (needs_input && !is_closing()) input_.set(input_bytes());
    const bool may_receive = needs_input && !is_closing() && may_execute();
    if (may_receive && transport().can_receive() && !receive()) break;
    TurnEnd turn = is_closing() ? TurnEnd::kClose : execute();
    if (turn == TurnEnd::kAsk) {
      service_.after_link();
      co_await ask();
      turn = is_closing() ? TurnEnd::kClose : TurnEnd::kYield;
    }
    if (is_dropped()) co_return;
    needs_input = turn == TurnEnd::kNeedMore || reader_.buffered_bytes() == 0;
    if (turn == TurnEnd::kNeedMore && !reader_.is_idle()) service_.link().has_unfinished(id_, boot_time());
    service_.after_link();
    // after_link() sends for connections that got new bytes; this one may have older bytes, for
    // which the socket has room.
    if (!is_dropped()) send();
    if (is_dropped()) co_return;
    if (turn == TurnEnd::kClose) {
      drop_input();
      co_await say_goodbye();
      if (is_sent_away_ && !is_dropped()) co_await await_return();
      co_return;
    }
    const bool has_more = turn == TurnEnd::kYield || transport().can_receive();
    is_paused_ = !may_execute();
    if (is_paused_) service_.watch_room();
    if (has_more && !is_paused_ && !input_.is_waiting()) {
      // Other users, and this user's other connections, have their turns first.
      co_await service_.slices().wait_for_slice(wakeup().line());
      continue;
    }
    if (transport().is_at_end()) co_return;
    if (reader_.is_idle()) reader_.release();
    input_.set(input_bytes());
    if (!is_logged_in()) wake_at(connection_.connected_at() + service_.directory().login_timeout);
    if (!is_paused_ && !input_.is_waiting()) transport().wait_readable(*this);
    if (!wakeup().take()) co_await wakeup().wait();
  }
}

bool WorkerSession::may_execute() const {
  const std::size_t pause = is_logged_in() ? kPauseOutput : kPauseStranger;
  WorkerLink& link = service_.link();
  return link.accepts_commands(id_) && link.output(id_).size() <= pause;
}

Coroutine<bool> WorkerSession::shake_hands() {
  kLinkThread.assert_held();
  const Instant deadline = connection_.connected_at() + service_.directory().login_timeout;
  using enum Connection::Handshake;
  const auto done = co_await connection_.shake_hands(*this, service_.handshakes(), deadline);
  switch (done) {
    case kDone:
      life().go_to(is_logged_in() ? Life::kServing : Life::kStranger);
      co_return true;
    case kPlain:
      transport().become_plain();
      fail("ERR this port speaks TLS: use rediss:// in place of redis://");
      life().go_to(Life::kLastReply);
      co_return true;
    case kFailed:
    case kLate:
    case kGone:
    case kClosed:
      break;
  }
  co_return false;
}

bool WorkerSession::receive() {
  WorkerLink& link = service_.link();
  const std::optional<std::uint64_t> room = input_.room(reader_.awaited_bytes());
  if (!room) {
    fail_and_close(
        "TOOBIG the command takes more than half of workers.max_leased_bytes, which is all that one user may "
        "have");
    drop_input();
    return true;
  }
  if (*room == 0) {
    input_.wait();
    if (!std::exchange(is_stopped_, true)) link.stops_reading(id_, boot_time());
    service_.watch_input();
    return true;
  }
  if (std::exchange(is_stopped_, false)) link.reads_again(id_, boot_time());
  std::span<std::byte> space = reader_.prepare();
  space = space.first(static_cast<std::size_t>(std::min<std::uint64_t>({space.size(), kMostRead, *room})));
  const Transport::Received received = transport().receive(space);
  if (received.bytes == 0) return !is_dropped();
  if (received.is_first && !transport().is_tls() && space.front() == Transport::kTlsFirstByte) {
    fail("ERR this port does not speak TLS: use redis:// in place of rediss://, or set workers.tls");
    life().go_to(Life::kLastReply);
    return true;
  }
  reader_.commit(received.bytes);
  link.heard(id_, boot_time());
  input_.received(received.bytes);
  input_.set(input_bytes());
  return true;
}

std::uint64_t WorkerSession::input_bytes() const {
  // One block of the reader does not count, nor does the buffer for sending: each connection has
  // them.
  constexpr std::size_t kOwn = proto::CommandReader::kBlockBytes;
  const std::size_t held = reader_.memory_bytes();
  return std::max(reader_.buffered_bytes(), held - std::min(held, kOwn));
}

void WorkerSession::drop_input() {
  reader_.abandon();
  input_.set(0);
}

WorkerSession::TurnEnd WorkerSession::execute() {
  WorkerLink& link = service_.link();
  const Instant began = now();
  for (int n = 1; n <= kTurnCommands; ++n) {
    if (!may_execute()) return TurnEnd::kYield;
    switch (reader_.next(command_)) {
      case proto::ReadStatus::kNeedMore:
        return TurnEnd::kNeedMore;
      case proto::ReadStatus::kError:
        link.end_claim(id_, boot_time());
        if (reader_.error().kind == proto::ProtocolError::Kind::kProtocol) fail(reader_.error().message);
        life().go_to(Life::kLastReply);  // send() wakes it when its replies are written
        return TurnEnd::kClose;
      case proto::ReadStatus::kComplete:
        input_.ended_command();
        break;
    }
    if (command_.arguments.empty()) continue;
    if (const auto own = execute_own()) {
      if (*own != TurnEnd::kNeedMore) return *own;
    } else {
      link.execute(id_, command_.arguments, boot_time());
    }
    if (now() - began > kTurnTime) return TurnEnd::kYield;
  }
  return TurnEnd::kYield;
}

void WorkerSession::send() {
  if (is_dropped() || service_.link().is_put_off(id_)) return;
  // The coroutine sends the rest, and goes on when the peer has gone.
  if (is_sent_away_) return wakeup().wake();
  if (!flush()) return drop("the peer has gone");
  if (!service_.link().output(id_).empty()) transport().wait_writable(*this);
  if ((is_paused_ && may_execute()) || is_closing()) wakeup().wake();
  measure_round_trip();
}

bool WorkerSession::flush() {
  proto::OutputBuffer& output = service_.link().output(id_);
  const bool has_waited = std::exchange(has_unsent_, false);
  while (!output.empty()) {
    std::array<std::string_view, 32> views;
    const std::size_t used = output.gather(views);
    std::size_t total = 0;
    for (std::size_t i = 0; i < used; ++i) total += views[i].size();
    const std::optional<std::size_t> sent = transport().send(std::span(views).first(used));
    if (!sent) return false;
    if (service_.link().sent(id_, *sent)) service_.lane_has_work();
    // While much is unsent, no command is read; but a peer that takes bytes is alive.
    if (has_waited && *sent != 0) {
      service_.link().heard(id_, boot_time());
      input_.received(*sent);
    }
    has_unsent_ = *sent < total;
    if (has_unsent_) return true;
  }
  output.release();
  return true;
}

void WorkerSession::measure_round_trip() {
  const Instant at = now();
  if (at - measured_at_ < kRoundTripPeriod) return;
  measured_at_ = at;
  if (const auto measured = tcp_round_trip(transport().descriptor()))
    service_.link().note_round_trip(id_, *measured);
}

void WorkerSession::directory_changed() {
  if (!is_logged_in()) return;
  const WorkerDirectory& directory = service_.directory();
  reader_.set_limits(directory.limits);
  UserRef current = directory.current_of(*user_);
  if (current == nullptr) {
    return drop(user_->is_everybody() ? "users are configured now, and it has not logged in"
                                      : "its user was removed");
  }
  if (const std::string_view objection = objection_to(logged_in_by_, *user_, *current); !objection.empty())
    return drop(objection);
  user_ = std::move(current);
  if (!user_->may(proto::CommandGroup::kWork)) drop("its user may no longer work");
}

void WorkerSession::authorities_changed() {
  const bool is_by_certificate = logged_in_by_ == Credential::kCertificate;
  const std::string_view objection =
      connection_.objection_of_authorities(service_.directory().tls.get(), is_by_certificate);
  if (!objection.empty()) drop(objection);
}

void WorkerSession::drop(std::string_view reason) {
  if (!life().go_to(Life::kDropped)) return;
  LogLine("connection of a worker dropped")
      .with("peer", peer())
      .with("reason", reason)
      .write(service_.log(), spdlog::level::debug);
  // So that it gets no lease before its coroutine has ended.
  service_.link().end_claim(id_, boot_time());
  wakeup().wake();
}

void WorkerSession::give_way() {
  stranger_.leave();
  drop("limits.max_clients reached: a connection that has not logged in gives way to a new one");
}

void WorkerSession::fail(std::string_view text) { service_.link().reply(id_).error(text); }

void WorkerSession::fail_and_close(std::string_view text) {
  service_.link().end_claim(id_, boot_time());
  fail(text);
  life().go_to(Life::kLastReply);
}

void WorkerSession::close_for_memory(std::string_view text) {
  fail_and_close(text);
  service_.link().send_away(id_);
  is_sent_away_ = true;
  LogLine("connection of a worker closed for lack of memory")
      .with("peer", peer())
      .with("reason", text)
      .write(service_.log(), spdlog::level::info);
  drop_input();
  wakeup().wake();
}

void WorkerSession::free_input() {
  kLinkThread.assert_held();
  close_for_memory(
      "QUEUEFULL unfinished commands of workers take more than workers.max_leased_bytes has room for: "
      "connect again, RECLAIM, and send it again");
}

void WorkerSession::look_at_input() {
  // While its replies wait for the store, it may not be read.
  if (service_.link().holds_replies(id_) || !input_.is_stuck()) return;
  close_for_memory(fmt::format(
      "QUEUEFULL less than {} bytes of a command have come in {} s, while others wait for the room "
      "in workers.max_leased_bytes that it takes: connect again, RECLAIM, and send it again",
      InputBudget::kLeastProgress, InputBudget::kPatience));
}

void WorkerSession::show_life() {
  if (input_.is_waiting()) service_.link().show_life(id_);
}

Coroutine<void> WorkerSession::say_goodbye() {
  kLinkThread.assert_held();
  // The last reply waits behind replies that wait for the store.
  while (!is_dropped() && service_.link().holds_replies(id_)) {
    if (!wakeup().take()) co_await wakeup().wait();
  }
  if (is_dropped()) co_return;
  const auto flush_all = [this]() -> std::optional<bool> {
    kLinkThread.assert_held();
    if (!flush()) return std::nullopt;
    return service_.link().output(id_).empty();
  };
  co_await connection_.say_goodbye(*this, flush_all);
}

Coroutine<void> WorkerSession::await_return() {
  kLinkThread.assert_held();
  transport().close();
  place_.reset();
  const Instant until = now() + service_.link().time_to_return();
  while (!is_dropped() && now() < until && service_.link().has_leases(id_)) {
    wake_at(until);
    if (!wakeup().take()) co_await wakeup().wait();
  }
}

void WorkerSession::end() {
  stranger_.leave();
  connection_.close();
  drop_input();
  user_.reset();
  place_.reset();
  service_.ended(*this);
}

}  // namespace locksley::daemon
