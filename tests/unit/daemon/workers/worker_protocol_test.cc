// proto/WORKER_PROTOCOL.md is true: its conversation is replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

// A RESP2 reply as the page writes it; moves `at` behind it.
std::string shown(const std::string& bytes, std::size_t& at) {
  const std::size_t end = bytes.find("\r\n", at);
  const char type = bytes[at];
  const std::string line = bytes.substr(at + 1, end - at - 1);
  at = end + 2;
  if (type == ':') return line;
  if (type == '+' || type == '-') return type + line;
  if (line == "-1") return "null";
  const std::size_t count = std::stoul(line);
  if (type == '$') {
    at += count + 2;
    return '"' + bytes.substr(at - count - 2, count) + '"';
  }
  std::string list;
  for (std::size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + shown(bytes, at);
  return '[' + list + ']';
}

// Words, of which those with spaces are in quotes.
Words words_of(std::string_view line) {
  Words words;
  while (!line.empty()) {
    const bool is_quoted = line.front() == '"';
    if (is_quoted) line.remove_prefix(1);
    const std::size_t end = std::min(line.find(is_quoted ? '"' : ' '), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end + (is_quoted ? 2 : 1)));
  }
  return words;
}

class WorkerProtocolTest : public WorkerLinkFixture {
 protected:
  std::string reply_to(WorkerLink::Id id, const Words& words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    link->execute(id, proto::ArgumentList::copy_of(views), now);
    const std::string bytes = link->output(id).to_string();
    (void)link->sent(id, bytes.size());
    std::size_t at = 0;
    return bytes.empty() ? "nothing" : shown(bytes, at);
  }
};

TEST_F(WorkerProtocolTest, TheConversationIsAsThePageSays) {
  std::ifstream page(LOCKSLEY_WORKER_PROTOCOL);
  host.submit("echo", 12);
  const WorkerLink::Id id = connect();
  std::string line;
  while (std::getline(page, line) && line != "```worker-session") continue;
  int replies = 0;
  std::string reply;
  while (std::getline(page, line) && line != "```") {
    if (line.starts_with("#")) continue;
    if (line.starts_with("> ")) {
      reply = reply_to(id, words_of(std::string_view(line).substr(2)));
      continue;
    }
    EXPECT_EQ(reply, line);
    ++replies;
  }
  EXPECT_EQ(line, "```");
  EXPECT_GT(replies, 20);
}

}  // namespace
}  // namespace locksley::daemon::test
