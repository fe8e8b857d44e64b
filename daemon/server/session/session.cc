#include "daemon/server/session/session.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <array>
#include <asio/post.hpp>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/records/refusals.h"
#include "daemon/server/session/sessions.h"

namespace locksley::daemon {

Session::Session(Sessions& sessions, Transport transport, std::uint64_t id, std::string peer,
                 std::string local)
    : sessions_(sessions),
      state_(sessions.state()),
      connection_(std::move(transport), std::move(peer), state_.turns(), state_.executor()),
      id_(id),
      local_(std::move(local)),
      login_(connection_.connected_at()),
      stranger_(sessions.strangers(), id, connection_.transport().address()),
      reader_(proto::Limits::before_authentication(), state_.blocks()),
      output_(state_.held_replies(),
              [this](SessionOutput::HeldNumber held, const std::string& error) {
                kIoThread.assert_held();
                release_replies(held, error);
              }),
      subscriptions_(state_.batches().events(), state_.stats().subscribers, *this),
      transaction_([this](std::shared_ptr<void> queue, std::uint64_t bytes) {
        state_.batches().free_dropped(std::move(queue), bytes);
      }),
      memory_(sessions.memory()),
      write_gate_(sessions.write_waiters(), [this] { wake(); }),
      active_at_(connection_.connected_at()) {
  log_out();
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
  if (!self->subscriptions_.is_clear()) co_await self->subscription_moves_.end();
  // Freeing what a peer has not read takes as long as sending it, and very many peers may leave at
  // once.
  Slices& slices = self->state_.slices();
  if (!slices.has_time()) co_await self->wait_for_slice();
  const Instant began = now();
  self->end();
  slices.charge(now() - began);
}

Coroutine<void> Session::converse() {
  if (life().now() == Life::kHandshake) {
    const bool is_ready = co_await shake_hands();
    if (!is_ready) co_return;
  }
  if (NetworkThreads* const network = state_.network(); network != nullptr && !life().is_closing()) {
    transport().hand_over(*network, *this);
  }
  // False while commands that have arrived are yet to be executed: a peer that sends faster than
  // they are executed waits.
  bool needs_input = true;
  while (!is_dropped()) {
    if (life().now() == Life::kStranger && now() >= login_deadline()) co_return;
    if (needs_input && transport().can_receive() && !is_held_up()) receive();
    const Instant began = now();
    const TurnEnd turn = execute(began);
    match_events();
    // Sending is not counted: it wakes the peer, which may take the processor at once.
    const Instant::duration took = turn == TurnEnd::kBlock ? Instant::duration{} : now() - began;
    if (turn == TurnEnd::kBlock) {
      co_await sessions_.executor().execute_blocking(*this, spec_->id, command_);
      sessions_.executor().finish(*this, command_);
      active_at_ = now();
    }
    needs_input = turn == TurnEnd::kNeedMore || reader_.buffered_bytes() == 0;
    // To send replies takes about as long as to make them.
    if (output_.sendable().size() >= Slices::kMuchToSend && !state_.slices().has_time()) {
      co_await wait_for_slice();
    }
    if (is_dropped() || !flush() || is_over_output_limit()) co_return;
    if (output_.empty()) tells_of_batches_ = false;  // not in flush(): a command that waits has yet to reply
    if (auto muted = output_.take_muted()) free_if_large(std::move(*muted));
    update_memory();
    if (turn == TurnEnd::kClose || life().is_closing()) {
      drop_input();
      co_await say_goodbye();
      co_return;
    }
    const bool may_go_on = !is_held_up();
    const bool has_more =
        turn == TurnEnd::kYield || (turn == TurnEnd::kBlock && reader_.buffered_bytes() > 0) ||
        transport().can_receive() || (subscriptions_.has_waiting_events() && !transport().is_at_end());
    if (may_go_on && turn == TurnEnd::kBlock && !has_more) continue;
    if (may_go_on && has_more) {
      // First the other connections that are ready have their turns.
      co_await wait_for_slice();
      continue;
    }
    const bool is_last = transport().is_at_end() || life().now() == Life::kFinishing;
    if (turn == TurnEnd::kNeedMore && is_last && output_.empty() && transport().is_sent()) co_return;
    if (!rest()) co_return;
    if (may_go_on && !transport().is_at_end()) transport().wait_readable(*this);
    wait_to_send();
    if (output_.is_held()) offer_early();
    // Only two long turns in a row count as costly: in one, another program may have had the
    // processor.
    const bool was_long = took > kCheapTurn;
    const bool is_costly = std::exchange(was_long_, was_long) && was_long;
    if (was_long) state_.slices().charge(took);
    if (!wakeup().take()) co_await wakeup().wait();
    // Its next turn may be as long, so clients with short turns come first.
    if (is_costly && !state_.slices().has_time()) co_await wait_for_slice();
  }
}

Session::TurnEnd Session::execute(Instant began) {
  if (life().is_closing()) return TurnEnd::kClose;
  const CommandExecutor& executor = sessions_.executor();
  const std::size_t output_limit = output_size() + kTurnOutput;
  for (int n = 1; n <= kTurnCommands; ++n) {
    if (output_size() > output_limit || is_held_up()) return TurnEnd::kYield;
    if (!write_gate_.is_holding()) {
      const proto::ReadStatus status = reader_.next(command_);
      if (status == proto::ReadStatus::kNeedMore) return TurnEnd::kNeedMore;
      if (status == proto::ReadStatus::kError) return refuse_stream();
      write_gate_.next_command();
    }
    const bool waits = !transaction_.is_open() && wait_unless_room_to_write(command_);
    write_gate_.set_holding(waits);
    if (waits) return TurnEnd::kYield;
    active_at_ = began;
    ++commands_;
    if (executor.execute(*this, command_, spec_) == CommandExecutor::Executed::kBlocks)
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
  const proto::ProtocolError& error = reader_.error();
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

bool Session::is_muted() const {
  using enum ClientInfo::ReplyMode;
  return info_.reply_mode == kOff || info_.reply_mode == kSkipping;
}

proto::ReplyWriter Session::reply() {
  if (is_muted()) return {output_.muted(), info_.protocol};
  return {output_.end(), info_.protocol};
}

Coroutine<bool> Session::let_others(Slices::Spending& time, std::size_t held) {
  update_memory(held);
  co_await wait_for_slice();
  time.go_on();
  co_return !is_dropped();
}

Coroutine<void> Session::reply_in_slices(proto::OutputBuffer views) {
  constexpr std::size_t kAtOnce = 64 * 1024;  // some 30 us, with the faults of fresh pages
  if (is_muted()) co_return;
  proto::OutputBuffer copy;
  Slices::Spending time(state_.slices());
  while (!views.empty()) {
    std::array<std::string_view, 1> first;
    views.gather(first);
    const std::string_view some = first[0].substr(0, kAtOnce);
    copy.append(some);
    views.consume(some.size());
    if (!time.is_used_up()) continue;
    if (!co_await let_others(time, copy.memory_bytes())) {
      free_if_large(std::move(copy));
      co_return;
    }
  }
  reply().buffer().append(std::move(copy));
}

bool Session::is_held_up() {
  const std::size_t pause = reader_.limits().authenticated ? kPauseOutput : kPauseStranger;
  // First this: else a client that reads nothing would keep its place at the head of the queue.
  const bool waits = write_gate_.is_holding() && wait_unless_room_to_write(command_);
  return waits || output_.size() > pause;
}

bool Session::wait_unless_room_to_write(const proto::Command& command) {
  return write_gate_.wait_unless_room(memory_.account(), output_, [&] {
    kIoThread.assert_held();
    return sessions_.executor().writes(*this, command);
  });
}

void Session::release_replies(SessionOutput::HeldNumber held, const std::string& error) {
  take_back_early();
  const std::string reply = error.empty() ? std::string() : not_stored(error);
  const std::size_t errors = output_.release(held, reply, info_.protocol);
  if (errors != 0) {
    state_.stats().count_errors(reply, errors);
    state_.audit().refused_by_store(login_.user().get(), peer(), errors);
  }
  wakeup().wake();
}

void Session::hold_replies(Ticket ticket, Ticket earlier) {
  const Batches& batches = state_.batches();
  if (batches.is_settled(ticket)) return;
  const bool waits_for_both = earlier != ticket && !batches.is_settled(earlier);
  output_.hold(ticket, waits_for_both ? earlier : 0);
}

void Session::fail(std::string_view text) {
  state_.stats().count_errors(text, 1);
  if (audit_entry_ != nullptr) audit_entry_->outcome = Audit::code_of(text);
  reply().error(text);
}

void Session::drop(std::string_view reason) {
  if (!life().go_to(Life::kDropped)) return;
  LogLine("connection dropped")
      .with("peer", peer())
      .with("client", id_)
      .with("reason", reason)
      .write(state_.log(), spdlog::level::debug);
  wakeup().wake();
}

void Session::give_way() {
  stranger_.leave();
  constexpr std::string_view kWhy =
      "limits.max_clients reached: a connection that has not logged in gives way to a new one";
  state_.warnings().warn(Warning::kMaxClients, peer(), kWhy);
  drop(kWhy);
}

void Session::finish() {
  life().go_to(Life::kFinishing);
  wakeup().wake();
}

void Session::write_message(std::string_view pattern, std::string_view channel, std::string_view message) {
  kIoThread.assert_held();
  tell_of_batches();
  proto::ReplyWriter writer(output_.messages(), info_.protocol);
  writer.push(pattern.empty() ? 3 : 4);
  writer.bulk(pattern.empty() ? "message" : "pmessage");
  if (!pattern.empty()) writer.bulk(pattern);
  writer.bulk(channel);
  writer.bulk(message);
  update_memory();
  wakeup().wake();
}

void Session::event_waits() {
  kIoThread.assert_held();
  update_memory();
  wakeup().wake();
}

void Session::events_are_missed() {
  kIoThread.assert_held();
  if (is_dropped()) return;
  constexpr std::string_view kWhy =
      "a user has more events, and more subscribers to them, than can be delivered";
  state_.stats().slow_clients_dropped.add(1);
  state_.warnings().warn(Warning::kSlowClient, peer(), kWhy);
  drop(kWhy);
}

void Session::match_events() {
  if (!subscriptions_.has_waiting_events()) return;
  if (!subscriptions_.match_until(now() + kTurnTime)) {
    const auto go_on = [self = shared_from_this()](Instant) {
      self->wakeup().wake();
      return true;
    };
    state_.slices().add(go_on, wakeup().line());
  }
}

void Session::update_memory(std::size_t more) {
  kIoThread.assert_held();
  if (is_dropped()) return;
  const std::uint64_t memory = output_.memory_bytes() + subscriptions_.memory_bytes() +
                               transaction_.memory_bytes() + read_bytes_ + more;
  if (memory == memory_.output()) return;
  memory_.set_output(memory);
  sessions_.enforce_memory_limit(*this);
}

void Session::count_read(std::size_t bytes) {
  read_bytes_ = bytes;
  update_memory();
}

void Session::evict(const std::string& limit) {
  state_.warnings().warn(
      Warning::kClientMemory, peer(),
      fmt::format("clients together hold more than {}: the one that holds most is dropped", limit));
  state_.stats().slow_clients_dropped.add(1);
  drop(limit);
  memory_.set_output(0);
}

std::string Session::describe() const {
  const auto seconds = [](Instant since) {
    return std::chrono::duration_cast<std::chrono::seconds>(now() - since).count();
  };
  const bool subscribed = is_subscribed();
  const std::string_view flags = subscribed ? (info_.no_evict ? "Pe" : "P") : (info_.no_evict ? "e" : "N");
  // As in Redis: -1 outside of MULTI and EXEC.
  const std::int64_t queued = transaction_.is_open() ? static_cast<std::int64_t>(transaction_.size()) : -1;
  const std::size_t input = reader_.buffered_bytes();
  const std::size_t output = output_.sendable().memory_bytes();
  // The fields that are always 0 are for redis-py, which reads them as numbers.
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub={} psub={} multi={} cmds={} "
      "qbuf={} qbuf-free=0 argv-mem=0 obl=0 oll=0 omem={} tot-mem={} cmd={} "
      "user={} lib-name={} lib-ver={} resp={}",
      id_, peer(), local_, connection_.transport().descriptor(), info_.name,
      seconds(connection_.connected_at()), seconds(active_at_), flags,
      subscriptions_.of(Subscriptions::Kind::kChannel).size(),
      subscriptions_.of(Subscriptions::Kind::kPattern).size(), queued, commands_, input, output,
      input + output, spec_ == nullptr ? "NULL" : spec_->name, is_logged_in() ? user().name() : "(none)",
      info_.library_name, info_.library_version, static_cast<int>(info_.protocol));
}

void Session::free_if_large(proto::OutputBuffer bytes) {
  const std::size_t much = bytes.memory_bytes();
  if (much > kMuchToFree) {
    state_.batches().free_dropped(std::make_shared<proto::OutputBuffer>(std::move(bytes)), much);
  }
}

void Session::end() {
  subscriptions_.clear();
  transaction_.close();
  set_user(nullptr, Credential::kNone);
  take_back_early();  // before the socket is closed, to which the store's writer may send
  free_if_large(output_.take_all());
  sessions_.executor().finish(*this, command_);
  stranger_.leave();
  drop_input();
  connection_.close();
  memory_.clear();
  write_gate_.leave();
  sessions_.ended(*this);
}

}  // namespace locksley::daemon
