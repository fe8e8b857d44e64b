#include "daemon/server/session/session.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <optional>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/session/sessions.h"

namespace locksley::daemon {

Session::Session(Sessions& sessions, Transport transport, std::uint64_t id, std::string peer,
                 std::string local)
    : sessions_(sessions),
      state_(sessions.state()),
      connection_(std::move(transport), std::move(peer), state_.turns(), state_.executor()),
      id_(id),
      local_(std::move(local)),
      messages_(*this, state_),
      transaction_([this](std::shared_ptr<void> queue, std::uint64_t bytes) {
        state_.batches().free_dropped(std::move(queue), bytes);
      }),
      replies_(state_, connection_, info_, login_, messages_.subscriptions()),
      memory_(sessions, connection_.life(), replies_.output(), messages_.subscriptions(), transaction_),
      input_(state_, sessions.write_waiters(), connection_, replies_, memory_),
      login_(state_, sessions.strangers(), id, connection_, input_, memory_, messages_.subscriptions(),
             subscription_moves_),
      waits_(*this, state_, connection_) {
  login_.log_out();
}

Session::~Session() = default;

Coroutine<void> Session::serve(std::shared_ptr<Session> self) {
  kIoThread.assert_held();
  try {
    co_await self->converse();
  } catch (const std::exception& error) {
    LogLine("connection ended by an error")
        .with("peer", self->peer())
        .with("client", self->id_)
        .with("reason", error.what())
        .write(self->state_.log(), spdlog::level::err);
  }
  if (!self->subscriptions().is_clear()) co_await self->subscription_moves_.end();
  // Freeing unsent replies takes as long as sending them, and very many peers may leave at once.
  Slices& slices = self->state_.slices();
  if (!slices.has_time()) co_await self->waits_.wait_for_slice();
  const Instant began = now();
  self->end();
  slices.charge(now() - began);
}

Coroutine<bool> Session::shake_hands() {
  using enum Connection::Handshake;
  const Instant deadline = connection_.connected_at() + state_.config().limits.login_timeout;
  const auto done = co_await connection_.shake_hands(*this, state_.handshakes(), deadline);
  switch (done) {
    case kDone:
      break;
    case kPlain:
      refuse_plain();
      co_return true;
    case kFailed:
      state_.stats().tls_failures.add(1);
      state_.warnings().warn(Warning::kHandshake, peer(),
                             LogLine("TLS handshake failed").with("reason", transport().tls_error()));
      transport().become_plain();
      life().go_to(Life::kLastReply);
      co_return true;
    case kLate:
      LogLine("TLS handshake unfinished after limits.login_timeout")
          .with("peer", peer())
          .with("client", id_)
          .write(state_.log(), spdlog::level::debug);
      [[fallthrough]];
    case kGone:
      state_.stats().tls_failures.add(1);
      co_return false;
    case kClosed:
      co_return false;
  }
  state_.stats().tls_handshakes.add(1);
  life().go_to(is_logged_in() ? Life::kServing : Life::kStranger);
  login_.log_in_by_certificate(transport().peer_common_name());
  co_return true;
}

void Session::refuse_plain() {
  state_.stats().tls_failures.add(1);
  state_.warnings().warn(Warning::kWrongPort, peer(),
                         "a client that does not speak TLS came to a port that does");
  transport().become_plain();
  fail("ERR this port speaks TLS: use rediss:// in place of redis://, or redis-cli --tls");
  life().go_to(Life::kLastReply);
}

Coroutine<void> Session::converse() {
  if (life().now() == Life::kHandshake) {
    const bool is_ready = co_await shake_hands();
    if (!is_ready) co_return;
  }
  if (NetworkThreads* const network = state_.network(); network != nullptr && !life().is_closing()) {
    transport().hand_over(*network, *this);
  }
  // False while received commands are yet to be executed: a peer that sends faster than that waits.
  bool needs_input = true;
  while (!is_dropped()) {
    if (life().now() == Life::kStranger && now() >= login_.deadline()) co_return;
    if (needs_input && transport().can_receive() && !is_held_up()) input_.receive();
    const Instant began = now();
    const TurnEnd turn = execute(began);
    messages_.match_events();
    // Sending is not counted: it wakes the peer, which may take the processor at once.
    const Instant::duration took = turn == TurnEnd::kBlock ? Instant::duration{} : now() - began;
    if (turn == TurnEnd::kBlock) {
      co_await sessions_.executor().execute_blocking(*this, spec_->id, input_.command());
      sessions_.executor().finish(*this, input_.command());
      input_.set_active(now());
    }
    needs_input = turn == TurnEnd::kNeedMore || input_.buffered_bytes() == 0;
    // Sending replies takes about as long as making them.
    if (replies_.output().sendable().size() >= Slices::kMuchToSend && !state_.slices().has_time()) {
      co_await waits_.wait_for_slice();
    }
    if (is_dropped() || !replies_.flush() || replies_.is_over_limit()) co_return;
    replies_.turn_is_over();
    memory_.update();
    if (turn == TurnEnd::kClose || life().is_closing()) {
      input_.drop();
      co_await say_goodbye();
      co_return;
    }
    const bool may_go_on = !is_held_up();
    const bool has_more =
        turn == TurnEnd::kYield || (turn == TurnEnd::kBlock && input_.buffered_bytes() > 0) ||
        transport().can_receive() || (subscriptions().has_waiting_events() && !transport().is_at_end());
    if (may_go_on && turn == TurnEnd::kBlock && !has_more) continue;
    if (may_go_on && has_more) {
      // First the other connections that are ready have their turns.
      co_await waits_.wait_for_slice();
      continue;
    }
    const bool is_last = transport().is_at_end() || life().now() == Life::kFinishing;
    if (turn == TurnEnd::kNeedMore && is_last && replies_.output().empty() && transport().is_sent())
      co_return;
    if (!rest()) co_return;
    if (may_go_on && !transport().is_at_end()) transport().wait_readable(*this);
    waits_.wait_to_send();
    replies_.offer_early();
    // Only two long turns in a row count as costly: during one, another program may have had the
    // processor.
    const bool was_long = took > kCheapTurn;
    const bool is_costly = std::exchange(was_long_, was_long) && was_long;
    if (was_long) state_.slices().charge(took);
    if (!connection_.wakeup().take()) co_await connection_.wakeup().wait();
    // Its next turn may be as long, so clients with short turns come first.
    if (is_costly && !state_.slices().has_time()) co_await waits_.wait_for_slice();
  }
}

Session::TurnEnd Session::execute(Instant began) {
  if (life().is_closing()) return TurnEnd::kClose;
  const CommandExecutor& executor = sessions_.executor();
  const std::size_t output_limit = replies_.output().size() + kTurnOutput;
  for (int n = 1; n <= kTurnCommands; ++n) {
    if (replies_.output().size() > output_limit || is_held_up()) return TurnEnd::kYield;
    const proto::ReadStatus status = input_.next();
    if (status == proto::ReadStatus::kNeedMore) return TurnEnd::kNeedMore;
    if (status == proto::ReadStatus::kError) return refuse_stream();
    const bool waits = !transaction_.is_open() && wait_unless_room_to_write(input_.command());
    input_.gate().set_holding(waits);
    if (waits) return TurnEnd::kYield;
    input_.set_active(began);
    ++commands_;
    if (executor.execute(*this, input_.command(), spec_) == CommandExecutor::Executed::kBlocks)
      return TurnEnd::kBlock;
    if (life().is_closing()) return TurnEnd::kClose;
    // The clock costs as much as a PING, and next to nothing compared with any other command.
    const bool is_cheap = spec_ != nullptr && spec_->id == proto::CommandId::kPing;
    if ((n % 16 == 0 || !is_cheap) && now() - began > kTurnTime) return TurnEnd::kYield;
  }
  return TurnEnd::kYield;
}

Session::TurnEnd Session::refuse_stream() {
  state_.stats().protocol_errors.add(1);
  const proto::ProtocolError& error = input_.error();
  life().go_to(Life::kLastReply);
  if (error.kind == proto::ProtocolError::Kind::kCrossProtocol) {
    state_.warnings().warn(Warning::kCrossProtocol, peer(), "HTTP sent to the port of the wire protocol");
    return TurnEnd::kClose;
  }
  LogLine("protocol error")
      .with("peer", peer())
      .with("client", id_)
      .with("reason", error.message)
      .write(state_.log(), spdlog::level::debug);
  info_.reply_mode = ClientInfo::ReplyMode::kOn;
  fail(error.message);
  return TurnEnd::kClose;
}

bool Session::is_held_up() {
  const std::size_t pause = input_.limits().authenticated ? kPauseOutput : kPauseStranger;
  // Check this first: otherwise a client that reads nothing would keep its place at the head of the
  // queue.
  const bool waits = input_.gate().is_holding() && wait_unless_room_to_write(input_.command());
  return waits || replies_.output().size() > pause;
}

bool Session::wait_unless_room_to_write(const proto::Command& command) {
  return input_.gate().wait_unless_room(memory_.account(), replies_.output(), [&] {
    kIoThread.assert_held();
    return sessions_.executor().writes(*this, command);
  });
}

void Session::drop(std::string_view reason) {
  if (!life().go_to(Life::kDropped)) return;
  LogLine("connection dropped")
      .with("peer", peer())
      .with("client", id_)
      .with("reason", reason)
      .write(state_.log(), spdlog::level::debug);
  wake();
}

void Session::give_way() {
  login_.leave_strangers();
  constexpr std::string_view kWhy =
      "limits.max_clients reached: a connection that has not logged in gives way to a new one";
  state_.warnings().warn(Warning::kMaxClients, peer(), kWhy);
  drop(kWhy);
}

void Session::finish() {
  life().go_to(Life::kFinishing);
  wake();
}

void Session::evict(const std::string& limit) {
  state_.warnings().warn(
      Warning::kClientMemory, peer(),
      fmt::format("clients together hold more than {}: the one that holds most is dropped", limit));
  state_.stats().slow_clients_dropped.add(1);
  drop(limit);
  memory_.evict();
}

void Session::users_changed() {
  if (const std::string_view objection = login_.users_changed(); !objection.empty()) drop(objection);
}

void Session::authorities_changed(const TlsContext* context) {
  const std::string_view objection =
      connection_.objection_of_authorities(context, login_.is_by_certificate());
  if (!objection.empty()) drop(objection);
}

void Session::limits_changed() {
  input_.set_active(now());
  if (is_logged_in()) input_.set_limits(state_.reader_limits());  // the limits of strangers do not change
  wake();
}

std::string Session::describe() const {
  const auto seconds = [](Instant since) {
    return std::chrono::duration_cast<std::chrono::seconds>(now() - since).count();
  };
  const Subscriptions& subscriptions = messages_.subscriptions();
  const bool subscribed = is_subscribed();
  const std::string_view flags = subscribed ? (info_.no_evict ? "Pe" : "P") : (info_.no_evict ? "e" : "N");
  // As in Redis: -1 outside of MULTI and EXEC.
  const std::int64_t queued = transaction_.is_open() ? static_cast<std::int64_t>(transaction_.size()) : -1;
  const std::size_t input = input_.buffered_bytes();
  const std::size_t output = replies_.output().sendable().memory_bytes();
  // The fields that are always 0 are for redis-py, which reads them as numbers.
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub={} psub={} multi={} cmds={} "
      "qbuf={} qbuf-free=0 argv-mem=0 obl=0 oll=0 omem={} tot-mem={} cmd={} "
      "user={} lib-name={} lib-ver={} resp={}",
      id_, peer(), local_, connection_.transport().descriptor(), info_.name,
      seconds(connection_.connected_at()), seconds(input_.active_at()), flags,
      subscriptions.of(Subscriptions::Kind::kChannel).size(),
      subscriptions.of(Subscriptions::Kind::kPattern).size(), queued, commands_, input, output,
      input + output, spec_ == nullptr ? "NULL" : spec_->name, is_logged_in() ? user().name() : "(none)",
      info_.library_name, info_.library_version, static_cast<int>(info_.protocol));
}

bool Session::rest() {
  input_.release();
  if (replies_.output().sendable().empty()) replies_.output().sendable().clear();
  memory_.update();
  if (life().now() == Life::kStranger) {
    if (now() >= login_.deadline()) return false;
    connection_.wake_at(*this, login_.deadline());
  }
  const auto limit = state_.config().limits.idle_timeout;
  if (limit.count() == 0 || is_subscribed() || input_.gate().is_holding()) return true;
  const Instant at = input_.active_at() + limit;
  if (now() >= at) return false;
  connection_.wake_at(*this, at);
  return true;
}

Coroutine<void> Session::say_goodbye() {
  while (!is_dropped() && (replies_.output().is_held() || replies_.is_withheld())) {
    if (!replies_.flush()) co_return;
    waits_.wait_to_send();
    if (!connection_.wakeup().take()) co_await connection_.wakeup().wait();
  }
  const auto flush_all = [this]() -> std::optional<bool> {
    kIoThread.assert_held();
    if (replies_.is_withheld() || !replies_.flush()) return std::nullopt;
    return replies_.output().sendable().empty();
  };
  co_await connection_.say_goodbye(*this, flush_all);
}

void Session::end() {
  subscriptions().clear();
  transaction_.close();
  login_.end();
  replies_.end();
  sessions_.executor().finish(*this, input_.command());
  login_.leave_strangers();
  input_.drop();
  connection_.close();
  memory_.clear();
  input_.gate().leave();
  sessions_.ended(*this);
}

}  // namespace locksley::daemon
