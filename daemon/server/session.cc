#include "daemon/server/session.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "daemon/log_line.h"
#include "daemon/server/batch_replies.h"
#include "daemon/server/dispatch.h"
#include "daemon/server/server.h"
#include "proto/glob.h"

namespace locksley::daemon {

namespace {
constexpr std::uint64_t kTopicBytes = 200;  // of a subscription beside its name, which is there twice; about
}  // namespace

Session::Session(Server& server, Transport transport, std::uint64_t id, std::string peer, std::string local)
    : server_(server),
      transport_(std::move(transport)),
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
    LogLine("connection ended by an error")
        .with("peer", self->peer_)
        .with("client", self->id_)
        .with("reason", error.what())
        .write(self->server_.log(), spdlog::level::err);
  }
  self->end();
}

Coroutine<void> Session::converse() {
  if (transport_.is_tls()) {
    const bool is_ready = co_await shake_hands();
    if (!is_ready) co_return;
    if (!closing_) log_in_by_certificate(transport_.tls().peer_common_name());
  }
  while (!dropped_) {
    if (!is_logged_in() && now() >= login_deadline()) co_return;
    if (readable_ && !eof_ && !is_held_up()) receive();
    const Turn turn = execute();
    match_offered();
    if (turn == Turn::kBlock) co_await handler_of(spec_->id).blocking(*this, std::exchange(command_, {}));
    if (dropped_ || !flush() || is_over_limit()) co_return;
    account();
    if (turn == Turn::kClose || closing_) {
      co_await farewell();
      co_return;
    }
    const bool may_go_on = !is_held_up();
    const bool has_more = turn == Turn::kYield || (turn == Turn::kBlock && reader_.buffered_bytes() > 0) ||
                          (readable_ && !eof_) || !offered_.empty();
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
    // The clock costs as much as a PING, and next to nothing beside any other command.
    const bool is_cheap = spec_ != nullptr && spec_->id == proto::CommandId::kPing;
    if ((n % 16 == 0 || !is_cheap) && now() - began > kTurnTime) return Turn::kYield;
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
  LogLine("protocol error")
      .with("peer", peer_)
      .with("client", id_)
      .with("reason", error.message)
      .write(server_.log(), spdlog::level::debug);
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
    const std::string error = not_stored(outcome.error);
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
  LogLine("connection dropped")
      .with("peer", peer_)
      .with("client", id_)
      .with("reason", reason)
      .write(server_.log(), spdlog::level::debug);
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
  account();
  wakeup_.wake();
}

void Session::offer(const ChannelEvent& event) {
  if (dropped_) return;
  offered_.push_back(event);
  offered_bytes_ += sizeof event + event.channel.size() + event.message->size();
  account();
  wakeup_.wake();
}

void Session::match_offered() {
  if (offered_.empty()) return;
  const Instant began = now();
  while (!offered_.empty() && !dropped_) {
    const ChannelEvent& event = offered_.front();
    auto pattern = matched_up_to_.empty() ? patterns.begin() : patterns.upper_bound(matched_up_to_);
    for (; pattern != patterns.end(); ++pattern) {
      if (now() - began > kTurnTime) {
        // Behind all that waits: a wake-up of its own would be heard at once.
        asio::post(server_.executor(), [self = shared_from_this()] { self->wakeup_.wake_here(); });
        return;
      }
      if (proto::glob_match(*pattern, event.channel)) deliver(*pattern, event.channel, *event.message);
      matched_up_to_ = *pattern;
    }
    matched_up_to_.clear();
    offered_bytes_ -= sizeof event + event.channel.size() + event.message->size();
    offered_.pop_front();
  }
}

void Session::account(std::size_t more) {
  if (dropped_) return;
  std::uint64_t memory = output_.memory_bytes() + offered_bytes_ + topic_bytes_ + more;
  for (const Held& held : held_) memory += held.bytes.memory_bytes();
  if (memory == accounted_) return;
  const std::uint64_t before = std::exchange(accounted_, memory);
  server_.account_output(memory, before);
}

void Session::evict() {
  server_.warn_sometimes(
      Warning::kClientMemory, peer_,
      "all clients together hold more than limits.client_memory: who holds most is dropped");
  server_.stats().slow_clients_dropped.add(1);
  drop("limits.client_memory");
  server_.forget_output(std::exchange(accounted_, 0));
}

void Session::subscribe(Topics Session::* kind, const std::string& topic) {
  const bool was_subscribed = is_subscribed();
  if (!(this->*kind).insert(topic).second) return;
  topic_bytes_ += kTopicBytes + 2 * topic.size();
  Events& events = server_.batches().events();
  if (kind == &Session::channels) {
    events.subscribe(*this, audience_, topic);
  } else if (patterns.size() == 1) {
    events.offer_all(*this, audience_);
  }
  if (!was_subscribed) server_.count_subscriber(1);
}

void Session::unsubscribe(Topics Session::* kind, const std::string& topic) {
  if ((this->*kind).erase(topic) == 0) return;
  topic_bytes_ -= kTopicBytes + 2 * topic.size();
  Events& events = server_.batches().events();
  if (kind == &Session::channels) {
    events.unsubscribe(*this, audience_, topic);
  } else if (patterns.empty()) {
    events.offer_none(*this, audience_);
  }
  if (!is_subscribed()) server_.count_subscriber(-1);
}

void Session::unsubscribe_all() {
  if (!is_subscribed()) return;
  Events& events = server_.batches().events();
  for (const std::string& channel : channels) events.unsubscribe(*this, audience_, channel);
  if (!patterns.empty()) events.offer_none(*this, audience_);
  channels.clear();
  patterns.clear();
  offered_.clear();
  matched_up_to_.clear();
  offered_bytes_ = topic_bytes_ = 0;
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
      id_, peer_, local_, const_cast<Transport&>(transport_).socket().native_handle(), name,
      seconds(connected_at_), seconds(active_at_), flags, channels.size(), patterns.size(), commands_,
      reader_.buffered_bytes(), output_.memory_bytes(), spec_ == nullptr ? "NULL" : spec_->name,
      is_logged_in() ? user().name() : "(none)", library_name, library_version, static_cast<int>(protocol));
}

Session::Waiting::Waiting(Session& session, BatchRecord& record, std::uint64_t row)
    : session_(session),
      record_(record),
      waiter_{.wakeup = session.wakeup_, .is_told = false, .place = record.waiters.size()} {
  record_.waiters.push_back({&waiter_, row});
  session_.server_.count_blocked(1);
}

Session::Waiting::~Waiting() {
  record_.waiters[waiter_.place] = record_.waiters.back();
  record_.waiters[waiter_.place].who->place = waiter_.place;
  record_.waiters.pop_back();
  session_.server_.count_blocked(-1);
  session_.active_at_ = now();
}

void Session::end() {
  unsubscribe_all();
  become(nullptr);
  transport_.close();
  timer_.cancel();
  output_.clear();
  server_.forget_output(std::exchange(accounted_, 0));
  server_.session_ended(*this, std::exchange(input_memory_, 0));
}

}  // namespace locksley::daemon
