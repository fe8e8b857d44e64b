// A session and its socket: reading, writing, waiting, and closing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/server/session/session.h"
#include "daemon/server/session/sessions.h"

namespace locksley::daemon {

void Session::receive() {
  const std::size_t known = transport().known_input();
  std::span<std::byte> space = known == 0 ? reader_.prepare() : reader_.prepare_for(known);
  space = space.first(std::min(space.size(), kMostRead));
  const Transport::Received received = transport().receive(space);
  if (received.bytes == 0) return;
  if (received.is_first && !transport().is_tls() && space.front() == Transport::kTlsFirstByte) {
    return refuse_tls();
  }
  reader_.commit(received.bytes);
  state_.stats().received_bytes.add(received.bytes);
  if (state_.config().limits.idle_timeout.count() != 0) active_at_ = now();
  update_input_memory();
}

void Session::update_input_memory() {
  if (memory_.set_input(input_bytes())) return;
  const Account& account = memory_.account();
  const Account& all = sessions_.memory().all();
  const std::string too_much =
      all.exceeds_limit(Resource::kInputBytes)
          ? "unfinished commands of all clients together pass limits.max_queued_bytes"
          : fmt::format("unfinished commands of {} take more of limits.max_queued_bytes than they leave free",
                        is_logged_in() ? "the user's clients" : "clients that have not logged in");
  state_.warnings().warn(Warning::kInputMemory, peer(), too_much);
  const std::uint64_t most =
      std::min(all.limit(Resource::kInputBytes), account.most_alone(Resource::kInputBytes));
  fail(memory_.input() > most
           ? fmt::format("TOOBIG {}, as this one does alone: send it in parts (OPEN, ADD)", too_much)
           : fmt::format("QUEUEFULL {}: send it later, or in parts (OPEN, ADD)", too_much));
  life().go_to(Life::kLastReply);
  drop_input();
}

std::uint64_t Session::input_bytes() const {
  return reader_.memory_bytes() + (write_gate_.is_holding() ? command_.arguments.memory_bytes() : 0);
}

void Session::drop_input() {
  if (write_gate_.is_holding()) {
    write_gate_.leave();
    state_.batches().free_words_aside(std::move(command_.arguments));
  }
  if (reader_.memory_bytes() > kMuchToFree) {
    state_.batches().free_words_aside(reader_.abandon());
  } else {
    reader_.abandon();
  }
  memory_.set_input(0);
}

void Session::release_input() {
  if (reader_.is_idle()) reader_.release();
  // It only shrinks here, so that it is not refused.
  if (const std::uint64_t memory = input_bytes(); memory != memory_.input()) {
    memory_.set_input(memory);
  }
}

bool Session::is_withheld() const {
  return tells_of_batches_ && !output_.sendable().empty() &&
         state_.role() == ClusterBoard::Role::kUnconfirmed;
}

void Session::wait_to_send() {
  if (output_.sendable().empty()) return;
  is_withheld() ? wake_at(now() + kLookAtRole) : transport().wait_writable(*this);
}

bool Session::flush() {
  if (is_withheld()) return true;
  proto::OutputBuffer& output = output_.sendable();
  if (!output.empty()) take_back_early();
  std::size_t most = Transport::kMostAtOnce;
  const bool sends_much = output.size() >= Slices::kMuchToSend;
  while (!output.empty()) {
    std::array<std::string_view, 32> views;
    const std::size_t used = output.gather(views);
    std::size_t total = 0;
    std::size_t count = 0;
    for (; count < used && total < most; ++count) {
      views[count] = views[count].substr(0, most - total);
      total += views[count].size();
    }
    const std::optional<std::size_t> sent = transport().send(std::span(views).first(count));
    if (!sent) return false;
    output.consume(*sent);
    state_.stats().sent_bytes.add(*sent);
    if (sends_much) state_.slices().charge_sending(*sent);
    if (*sent < total || *sent >= most) return true;
    most -= *sent;
  }
  return true;
}

void Session::offer_early() {
  // With subscriptions, messages may come before the reply.
  const std::optional<int> socket = transport().plain_socket();
  if (socket && subscriptions_.empty()) output_.offer_early(*socket);
}

void Session::take_back_early() { state_.stats().sent_bytes.add(output_.take_back_early()); }

bool Session::flush_or_drop() {
  if (!is_dropped() && !flush()) life().go_to(Life::kDropped);
  return !is_dropped();
}

bool Session::is_over_output_limit() {
  const std::uint64_t most = state_.config().limits.output_buffer.count;
  // A reply with one output as large as the limit is sent.
  constexpr std::uint64_t kAroundOutput = 128;  // rounded up
  if (output_.size() + subscriptions_.waiting_bytes() <= most + kAroundOutput) return false;
  state_.stats().slow_clients_dropped.add(1);
  state_.warnings().warn(Warning::kSlowClient, peer(),
                         subscriptions_.empty() ? "a client does not read its replies: limits.output_buffer"
                                                : "a subscriber reads too slowly: limits.output_buffer");
  return true;
}

bool Session::serve_socket() {
  if (is_dropped()) return false;
  // Until nothing is left: the socket does not report what a TLS channel has taken in already.
  while (transport().can_receive() && !life().is_closing() && reader_.buffered_bytes() < kBlockedInput)
    receive();
  if (life().is_closing()) return false;  // what it has sent was refused
  match_events();
  const bool is_full = reader_.buffered_bytes() >= kBlockedInput;
  if (transport().is_at_end() || (is_full && transport().is_gone())) {
    // The commands that are pipelined after this one are not executed either: a peer that
    // half-closes while it is blocked has given up. What was executed before has its replies.
    life().go_to(Life::kLastReply);
    return false;
  }
  if (!flush_or_drop()) return false;
  if (is_over_output_limit()) {
    life().go_to(Life::kDropped);
    return false;
  }
  update_memory();
  release_input();
  // The socket is readable for as long as the rest is not read, so no event tells that the peer has
  // gone.
  is_full ? wake_at(now() + kLookAtPeer) : transport().wait_readable(*this);
  wait_to_send();
  return true;
}

void Session::limits_changed() {
  active_at_ = now();
  if (is_logged_in()) reader_.set_limits(state_.reader_limits());  // those of a stranger do not change
  wakeup().wake();
}

bool Session::rest() {
  release_input();
  if (output_.sendable().empty()) output_.sendable().clear();
  update_memory();
  if (life().now() == Life::kStranger) {
    if (now() >= login_deadline()) return false;
    wake_at(login_deadline());
  }
  const auto limit = state_.config().limits.idle_timeout;
  if (limit.count() == 0 || !subscriptions_.empty() || write_gate_.is_holding()) return true;
  const Instant at = active_at_ + limit;
  if (now() >= at) return false;
  wake_at(at);
  return true;
}

Coroutine<void> Session::say_goodbye() {
  while (!is_dropped() && (output_.is_held() || is_withheld())) {
    if (!flush()) co_return;
    wait_to_send();
    if (!wakeup().take()) co_await wakeup().wait();
  }
  const auto flush_all = [this]() -> std::optional<bool> {
    kIoThread.assert_held();
    if (is_withheld() || !flush()) return std::nullopt;
    return output_.sendable().empty();
  };
  co_await connection_.say_goodbye(*this, flush_all);
}

}  // namespace locksley::daemon
