#include "daemon/upstream/link/command_pipeline.h"

namespace locksley::daemon {
namespace {

// If check_silence() comes later than this, this process was paused, and the silence proves
// nothing. A guess.
constexpr std::chrono::milliseconds kLate{1'000};

}  // namespace

void CommandPipeline::start() {
  forget_trouble();
  silent_since_ = now_;
  was_late_ = false;
}

void CommandPipeline::clear() {
  scanner_.clear();
  output_.clear();
  awaited_.clear();
  has_sent_leave_ = false;
}

void CommandPipeline::sent(std::size_t bytes, Nanoseconds now) {
  output_.consume(bytes);
  // The reply to a large SETTLE cannot come before all of it has arrived. A peer that hangs takes
  // bytes only until its socket is full.
  if (output_.empty()) return;
  advance(now);
  silent_since_ = now_;
}

void CommandPipeline::send(const AwaitedReply& awaited, std::initializer_list<std::string_view> words) {
  proto::CommandWriter writer = begin(awaited, words.size());
  for (const std::string_view word : words) writer.argument(word);
}

void CommandPipeline::leave() {
  has_sent_leave_ = true;
  send({.kind = AwaitedReply::Kind::kLeave}, {"LEAVE"});
}

std::optional<Nanoseconds> CommandPipeline::silent_at() const {
  if (awaited_.empty()) return std::nullopt;
  const AwaitedReply& first = awaited_.front();
  Nanoseconds due = first.sent;
  if (first.blocks) {
    // The wait of a CLAIM ends with the next command.
    due += block_;
    if (awaited_.size() > 1) due = std::min(due, awaited_[1].sent);
  }
  return std::max(due, silent_since_) + reply_timeout_;
}

// TCP does not notice that a peer is stopped or hangs: the peer's kernel acknowledges everything.
void CommandPipeline::check_silence() {
  const std::optional<Nanoseconds> at = silent_at();
  if (!at || now_ < *at) return;
  // If this process was paused, replies may be unread: the upstream gets the time once more.
  if (now_ - *at > kLate && !std::exchange(was_late_, true)) {
    silent_since_ = now_;
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(reply_timeout_);
  fail("it has sent nothing for " + std::to_string(seconds.count()) +
       " s although a reply is due: it may hang");
}

}  // namespace locksley::daemon
