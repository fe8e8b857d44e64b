#include "daemon/server/session/session_replies.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "daemon/server/records/refusals.h"
#include "daemon/server/session/session_login.h"

namespace locksley::daemon {

SessionReplies::SessionReplies(ServerState& state, Connection& connection, const ClientInfo& info,
                               const SessionLogin& login, const Subscriptions& subscriptions)
    : state_(state),
      connection_(connection),
      info_(info),
      login_(login),
      subscriptions_(subscriptions),
      output_(state_.held_replies(), [this](SessionOutput::HeldNumber held, const std::string& error) {
        kIoThread.assert_held();
        release(held, error);
      }) {}

void SessionReplies::fail(std::string_view text) {
  state_.stats().count_errors(text, 1);
  if (audit_entry_ != nullptr) audit_entry_->outcome = Audit::code_of(text);
  reply().error(text);
}

void SessionReplies::hold(Ticket ticket, Ticket earlier) {
  const Batches& batches = state_.batches();
  if (batches.is_settled(ticket)) return;
  const bool waits_for_both = earlier != ticket && !batches.is_settled(earlier);
  output_.hold(ticket, waits_for_both ? earlier : 0);
}

void SessionReplies::release(SessionOutput::HeldNumber held, const std::string& error) {
  take_back_early();
  const std::string reply = error.empty() ? std::string() : not_stored(error);
  const std::size_t errors = output_.release(held, reply, info_.protocol);
  if (errors != 0) {
    state_.stats().count_errors(reply, errors);
    state_.audit().refused_by_store(login_.user_ref().get(), connection_.peer(), errors);
  }
  connection_.wakeup().wake();
}

bool SessionReplies::is_withheld() const {
  return tells_of_batches_ && !output_.sendable().empty() &&
         state_.role() == ClusterBoard::Role::kUnconfirmed;
}

bool SessionReplies::flush() {
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
    const std::optional<std::size_t> sent = connection_.transport().send(std::span(views).first(count));
    if (!sent) return false;
    output.consume(*sent);
    state_.stats().sent_bytes.add(*sent);
    if (sends_much) state_.slices().charge_sending(*sent);
    if (*sent < total || *sent >= most) return true;
    most -= *sent;
  }
  return true;
}

bool SessionReplies::is_over_limit() {
  const std::uint64_t most = state_.config().limits.output_buffer.count;
  // A reply whose one output is as large as the limit may still be sent.
  constexpr std::uint64_t kAroundOutput = 128;  // rounded up
  if (output_.size() + subscriptions_.waiting_bytes() <= most + kAroundOutput) return false;
  state_.stats().slow_clients_dropped.add(1);
  state_.warnings().warn(Warning::kSlowClient, connection_.peer(),
                         subscriptions_.empty() ? "a client does not read its replies: limits.output_buffer"
                                                : "a subscriber reads too slowly: limits.output_buffer");
  return true;
}

void SessionReplies::offer_early() {
  if (!output_.is_held()) return;
  // With subscriptions, messages may come before the reply.
  const std::optional<int> socket = connection_.transport().plain_socket();
  if (socket && subscriptions_.empty()) output_.offer_early(*socket);
}

void SessionReplies::take_back_early() { state_.stats().sent_bytes.add(output_.take_back_early()); }

void SessionReplies::turn_is_over() {
  if (output_.empty()) tells_of_batches_ = false;
  if (auto muted = output_.take_muted()) free_if_large(std::move(*muted));
}

void SessionReplies::free_if_large(proto::OutputBuffer bytes) {
  const std::size_t much = bytes.memory_bytes();
  if (much > kMuchToFree) {
    state_.batches().free_dropped(std::make_shared<proto::OutputBuffer>(std::move(bytes)), much);
  }
}

void SessionReplies::end() {
  take_back_early();  // before the socket is closed: the store's writer may send to it
  free_if_large(output_.take_all());
}

}  // namespace locksley::daemon
