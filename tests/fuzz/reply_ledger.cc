#include "tests/fuzz/reply_ledger.h"

#include <algorithm>
#include <cstring>

#include "proto/text.h"
#include "tests/fuzz/target.h"

namespace locksley::fuzz {
namespace {

using proto::ReadStatus;
using proto::Reply;

std::string in_capitals(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return result;
}

bool is_list_of(const Reply& reply, std::initializer_list<std::string_view> kinds) {
  const bool is_list = reply.type == Reply::Type::kArray || reply.type == Reply::Type::kPush;
  return is_list && !reply.elements.empty() && reply.elements.front().type == Reply::Type::kBulk &&
         std::ranges::count(kinds, reply.elements.front().text) != 0;
}
bool is_message(const Reply& reply) { return is_list_of(reply, {"message", "pmessage"}); }
// COMMAND LIST names these, too.
bool is_confirmation(const Reply& reply) {
  return reply.elements.size() == 3 && reply.elements.back().is_integer() &&
         is_list_of(reply, {"subscribe", "unsubscribe", "psubscribe", "punsubscribe"});
}

// Where the daemon has a reason of its own to close the connection, it says so in an error that
// answers no command.
bool is_farewell(const Reply& reply) {
  return reply.is_error() && (reply.text.starts_with("QUEUEFULL unfinished commands") ||
                              reply.text.starts_with("TOOBIG unfinished commands") ||
                              reply.text.starts_with("ERR max number of clients"));
}

template <class Reader, class Parse>
void feed(Reader& reader, std::string_view bytes, Parse parse) {
  while (!bytes.empty()) {
    const auto space = reader.prepare();
    const std::size_t n = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), n);
    reader.commit(n);
    bytes.remove_prefix(n);
    parse();
  }
}

}  // namespace

void ReplyLedger::sent(std::string_view bytes) {
  if (is_broken_ || is_over_) return;
  feed(sent_, bytes, [this] {
    proto::Command command;
    ReadStatus status = ReadStatus::kNeedMore;
    while ((status = sent_.next(command)) == ReadStatus::kComplete) owe(command);
    if (status != ReadStatus::kError || is_broken_) return;
    is_broken_ = true;
    // HTTP that went astray has no answer.
    if (sent_.error().kind == proto::ProtocolError::Kind::kProtocol) owed_.push_back({});
  });
}

void ReplyLedger::owe(const proto::Command& command) {
  const auto& arguments = command.arguments;
  Owed owed;
  owed.name = in_capitals(command.name());
  owed.is_about_topics = owed.name.ends_with("SUBSCRIBE");
  owed.may_wait = owed.name == "WAIT" || owed.name == "RUN" || owed.name == "RESULTS";
  if (owed.is_about_topics) {
    for (std::size_t i = 1; i < arguments.size(); ++i) owed.topics.emplace_back(arguments[i]);
  }
  if (owed.name == "CLIENT" && arguments.size() > 2) {
    const std::string subcommand = in_capitals(arguments[1]);
    is_silenced_ = is_silenced_ || (subcommand == "REPLY" && in_capitals(arguments[2]) != "ON");
    has_killed_ = has_killed_ || subcommand == "KILL";
  }
  owed_.push_back(std::move(owed));
}

void ReplyLedger::received(std::string_view bytes) {
  feed(received_, bytes, [this] {
    Reply reply;
    ReadStatus status = ReadStatus::kNeedMore;
    while ((status = received_.next(reply)) == ReadStatus::kComplete) take_reply(std::move(reply));
    if (status == ReadStatus::kError) fail("what comes back are replies", received_.error_message());
  });
}

void ReplyLedger::take_reply(Reply reply) {
  const bool is_of_exec = is_reply_of_exec(reply);
  if (!is_of_exec && is_message(reply)) {
    require(reply.elements.size() == (reply.elements.front().text == "message" ? 3U : 4U),
            "a message is whole");
    return;
  }
  if (is_silenced_) return;
  require(!is_over_, "behind the last reply there is none");
  if (is_farewell(reply)) return end();
  require(!owed_.empty(), "for each reply there is a command");
  Owed& owed = owed_.front();
  if (owed.is_about_topics && !reply.is_error()) return confirm(owed, reply);
  require(is_of_exec || !is_confirmation(reply), "what is confirmed was asked for");
  if (owed.name.empty()) {
    require(reply.is_error() && reply.text.starts_with("ERR Protocol error"), "a broken stream is told so");
    return end();
  }
  if (owed.name == "QUIT" && !reply.is_error()) return end();
  if (owed.name == "RESET" && !reply.is_error()) topics_.clear();
  owed_.pop_front();
  replies_.push_back(std::move(reply));
}

// An array of replies to any commands, which may look like a message, but for the name of the
// channel. Messages of a subscription may come before its confirmation.
bool ReplyLedger::is_reply_of_exec(const Reply& reply) const {
  if (owed_.empty() || owed_.front().name != "EXEC" || reply.type != Reply::Type::kArray) return false;
  if (!is_message(reply) || reply.elements.size() < 3) return true;
  return !reply.elements[reply.elements.size() - 2].text.starts_with("batch");
}

// Of one channel.
void ReplyLedger::confirm(Owed& owed, const Reply& reply) {
  require(is_confirmation(reply), "each channel is confirmed");
  require(in_capitals(reply.elements[0].text) == owed.name, "as what was asked for");
  const Reply& topic = reply.elements[1];
  const char kind = owed.name.front() == 'P' ? 'p' : 'c';
  const auto of_this_kind = [&] {
    return std::ranges::count(topics_, kind, &std::pair<char, std::string>::first);
  };
  const bool is_all =
      owed.topics.empty();  // all that there are, in whatever order; or null, where there are none
  if (is_all) {
    require(topic.is_null() == (of_this_kind() == 0), "a channel, where there is one");
    require(topic.is_null() || topics_.contains({kind, topic.text}), "a channel that was subscribed to");
  } else {
    require(topic.text == owed.topics.front(), "channels are confirmed in order");
    owed.topics.erase(owed.topics.begin());
  }
  if (owed.name.find("UNSUB") != std::string::npos) {
    topics_.erase({kind, topic.text});
  } else {
    topics_.insert({kind, topic.text});
  }
  require(reply.elements[2].integer == static_cast<std::int64_t>(topics_.size()),
          "subscriptions are counted");
  if (is_all ? of_this_kind() == 0 : owed.topics.empty()) owed_.pop_front();
}

void ReplyLedger::closed(bool may_be_cut) {
  if (may_be_cut) return;
  require(received_.buffered_bytes() == 0, "the last reply is whole");
  if (is_over_ || is_silenced_ || owed_.empty()) return;
  if (is_half_closed_ && is_waiting()) return;  // and what is behind it
  fail("each command has its reply before the connection is closed", owed_.front().name);
}

}  // namespace locksley::fuzz
