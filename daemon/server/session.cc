#include "daemon/server/session.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "daemon/server/dispatch.h"
#include "daemon/server/server.h"

namespace locksley::daemon {

Session::Session(Server& server, Socket socket, std::uint64_t id, std::string peer, std::string local)
    : server_(server),
      socket_(std::move(socket)),
      id_(id),
      peer_(std::move(peer)),
      local_(std::move(local)),
      connected_at_(now()),
      stranger_since_(connected_at_),
      wakeup_(server.executor()),
      timer_(server.executor()),
      reader_(proto::Limits::before_authentication()),
      active_at_(connected_at_) {
  log_out();
}

Session::~Session() = default;

Coroutine<void> Session::serve(std::shared_ptr<Session> self) {
  try {
    co_await self->converse();
  } catch (const std::exception& error) {
    self->server_.log().error("connection ended peer={} client={} reason=\"{}\"", self->peer_, self->id_,
                              error.what());
  }
  self->end();
}

Coroutine<void> Session::converse() {
  while (!dropped_) {
    if (!is_logged_in() && now() >= login_deadline()) co_return;
    if (readable_ && !eof_ && !is_held_up()) receive();
    const Turn turn = execute();
    if (turn == Turn::kBlock) co_await handler_of(spec_->id).blocking(*this, std::exchange(command_, {}));
    if (dropped_ || !flush() || is_over_limit()) co_return;
    if (turn == Turn::kClose || closing_) {
      co_await farewell();
      co_return;
    }
    const bool may_go_on = !is_held_up();
    const bool has_more = turn == Turn::kYield || (turn == Turn::kBlock && reader_.buffered_bytes() > 0) ||
                          (readable_ && !eof_);
    if (may_go_on && turn == Turn::kBlock && !has_more) continue;
    if (may_go_on && has_more) {
      // To the end of the queue: everybody else who has something to do comes first.
      co_await asio::post(server_.executor(), kAwait);
      continue;
    }
    if (turn == Turn::kNeedMore && (eof_ || finishing_) && !has_output()) co_return;
    if (!rest()) co_return;
    if (may_go_on && !eof_) wait_readable();
    if (!output_.empty()) wait_writable();
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
}

Session::Turn Session::execute() {
  if (closing_) return Turn::kClose;
  const Instant began = now();
  const std::size_t output_limit = output_size() + kTurnOutput;
  for (int n = 1; n <= kTurnCommands; ++n) {
    if (output_size() > output_limit || is_held_up()) return Turn::kYield;
    const proto::ReadStatus status = reader_.next(command_);
    if (status == proto::ReadStatus::kNeedMore) return Turn::kNeedMore;
    if (status == proto::ReadStatus::kError) return refuse_stream();
    active_at_ = began;
    ++commands_;
    if (dispatch(*this, command_, spec_) == Dispatched::kBlocks) return Turn::kBlock;
    if (closing_) return Turn::kClose;
    // The clock costs as much as a PING: not each time.
    if (n % 16 == 0 && now() - began > kTurnTime) return Turn::kYield;
  }
  return Turn::kYield;
}

Session::Turn Session::refuse_stream() {
  server_.stats().protocol_errors.add(1);
  const proto::ProtocolError& error = reader_.error();
  if (error.kind == proto::ProtocolError::Kind::kCrossProtocol) {
    server_.warn_sometimes(Warning::kCrossProtocol, peer_, "HTTP sent to the port of the wire protocol");
    closing_ = true;
    return Turn::kClose;
  }
  server_.log().debug("protocol error peer={} client={} error=\"{}\"", peer_, id_, error.message);
  reply_mode = ReplyMode::kOn;
  fail(error.message);
  closing_ = true;
  return Turn::kClose;
}

proto::ReplyWriter Session::reply() {
  if (reply_mode == ReplyMode::kOff || reply_mode == ReplyMode::kSkipping) {
    muted_ = std::make_unique<proto::OutputBuffer>();
    return {*muted_, protocol};
  }
  return {output_end(), protocol};
}

std::size_t Session::output_size() const {
  std::size_t sum = output_.size();
  for (const Held& held : held_) sum += held.bytes.size();
  return sum;
}

bool Session::is_held_up() const {
  const std::size_t pause = reader_.limits().authenticated ? kPauseOutput : kPauseStranger;
  return output_size() > pause || (!held_.empty() && server_.batches().is_congested());
}

bool Session::waits_for_store(Ticket ticket) const { return !server_.batches().is_settled(ticket); }

void Session::hold(Ticket ticket) {
  if (!held_.empty() && held_.back().ticket >= ticket) return;
  if (held_.empty()) server_.holds_replies(id_);
  held_.push_back({ticket, {}, {}});
}

void Session::stored(const Outcome& outcome) {
  while (!held_.empty() && held_.front().ticket <= outcome.up_to) {
    Held held = std::move(held_.front());
    held_.pop_front();
    if (outcome.error.empty()) {
      output_.append(std::move(held.bytes));
      continue;
    }
    const std::string bytes = held.bytes.to_string();
    const std::string error = fmt::format(
        "STORE the disk did not take it: nothing was accepted, try again later; a change of what is there "
        "already "
        "holds, and is written later ({})",
        outcome.error);
    std::size_t at = 0;
    for (const Held::Part part : held.parts) {
      output_.append(std::string_view(bytes).substr(at, part.begin - at));
      server_.stats().command_errors[static_cast<std::size_t>(error_code_of(error))].add(1);
      proto::ReplyWriter(output_, protocol).error(error);
      at = part.end;
    }
    output_.append(std::string_view(bytes).substr(at));
  }
  if (!held_.empty()) server_.holds_replies(id_);
  wakeup_.wake();
}

void Session::fail(std::string_view text) {
  server_.stats().command_errors[static_cast<std::size_t>(error_code_of(text))].add(1);
  reply().error(text);
}

void Session::drop(std::string_view reason) {
  if (std::exchange(dropped_, true)) return;
  server_.log().debug("connection dropped peer={} client={} reason=\"{}\"", peer_, id_, reason);
  wakeup_.wake();
}

void Session::finish() {
  finishing_ = true;
  wakeup_.wake();
}

void Session::deliver(std::string_view pattern, std::string_view channel, std::string_view message) {
  if (dropped_) return;
  proto::ReplyWriter writer(output_, protocol);
  writer.push(pattern.empty() ? 3 : 4);
  writer.bulk(pattern.empty() ? "message" : "pmessage");
  if (!pattern.empty()) writer.bulk(pattern);
  writer.bulk(channel);
  writer.bulk(message);
  wakeup_.wake();
}

void Session::unsubscribe_all() {
  if (!is_subscribed()) return;
  Events& events = server_.batches().events();
  for (const std::string& channel : channels) events.unsubscribe(*this, audience_, channel);
  for (const std::string& pattern : patterns) events.punsubscribe(*this, audience_, pattern);
  channels.clear();
  patterns.clear();
  server_.count_subscriber(-1);
}

std::string Session::describe() const {
  const auto seconds = [](Instant since) {
    return std::chrono::duration_cast<std::chrono::seconds>(now() - since).count();
  };
  const std::string_view flags = is_subscribed() ? (no_evict ? "Pe" : "P") : (no_evict ? "e" : "N");
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub={} psub={} cmds={} qbuf={} "
      "omem={} cmd={} "
      "user={} lib-name={} lib-ver={} resp={}",
      id_, peer_, local_, const_cast<Socket&>(socket_).native_handle(), name, seconds(connected_at_),
      seconds(active_at_), flags, channels.size(), patterns.size(), commands_, reader_.buffered_bytes(),
      output_.memory_bytes(), spec_ == nullptr ? "NULL" : spec_->name,
      is_logged_in() ? user().name() : "(none)", library_name, library_version, static_cast<int>(protocol));
}

Session::Waiting::Waiting(Session& session, BatchRecord& record) : session_(session), record_(record) {
  record_.waiters.push_back(&session_.wakeup_);
  session_.server_.count_blocked(1);
}

Session::Waiting::~Waiting() {
  std::erase(record_.waiters, &session_.wakeup_);
  session_.server_.count_blocked(-1);
  session_.active_at_ = now();
}

void Session::end() {
  unsubscribe_all();
  become(nullptr);
  asio::error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  output_.clear();
  server_.session_ended(*this, std::exchange(input_memory_, 0));
}

}  // namespace locksley::daemon
