// hiredis, Redis' client in C, as Debian has it, against a daemon: commands by format and by
// argument vector, payloads that are any bytes, 100,000 of them in one command, a pipeline,
// messages of a channel, errors.
//
//   hiredis_test HOST PORT
#include <hiredis/hiredis.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

#define CHECK(condition, ...)                                            \
  if (!(condition)) {                                                    \
    std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
    std::fprintf(stderr, __VA_ARGS__);                                   \
    std::fputc('\n', stderr);                                            \
    std::exit(1);                                                        \
  }

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;
struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;

constexpr timeval kDeadline{.tv_sec = 30, .tv_usec = 0};

Context connect(const char* host, int port) {
  Context context(redisConnectWithTimeout(host, port, kDeadline));
  CHECK(context && context->err == 0, "connect: %s", context ? context->errstr : "no memory");
  CHECK(redisSetTimeout(context.get(), kDeadline) == REDIS_OK, "timeout");
  return context;
}

// The reply to what was just asked; not an error.
Reply good(redisContext* context, void* raw) {
  Reply reply(static_cast<redisReply*>(raw));
  CHECK(reply, "no reply: %s", context->errstr);
  CHECK(reply->type != REDIS_REPLY_ERROR, "%s", reply->str);
  return reply;
}

std::string_view text(const redisReply& reply) { return {reply.str, reply.len}; }

// The value behind `key` in a map that came as a flat array.
const redisReply& value(const redisReply& map, std::string_view key) {
  for (std::size_t i = 0; i + 1 < map.elements; i += 2) {
    if (text(*map.element[i]) == key) return *map.element[i + 1];
  }
  CHECK(false, "no %s", std::string(key).c_str());
}

void by_format(redisContext* context) {
  constexpr std::string_view kPayload("a\0\r\n\xff", 5);
  Reply batch = good(context, redisCommand(context, "SUBMIT %s NAME %s JOBS %b %b", "echo", "from hiredis",
                                           kPayload.data(), kPayload.size(), "", std::size_t{0}));
  CHECK(batch->type == REDIS_REPLY_STRING, "an id is a string");
  Reply status = good(context, redisCommand(context, "WAIT %s 30000", batch->str));
  CHECK(text(value(*status, "state")) == "done", "%s", value(*status, "state").str);
  CHECK(value(*status, "ok").integer == 2, "%lld", value(*status, "ok").integer);
  Reply results = good(context, redisCommand(context, "RESULTS %s", batch->str));
  CHECK(text(*results->element[0]) == "0" && results->element[1]->elements == 2, "two rows and the end");
  for (std::size_t i = 0; i < 2; ++i) {
    const redisReply& row = *results->element[1]->element[i];
    CHECK(text(*row.element[1]) == "ok", "%s", row.element[1]->str);
    CHECK(text(*row.element[2]) == (row.element[0]->integer == 0 ? kPayload : ""), "job %lld",
          row.element[0]->integer);
  }
}

void many_payloads(redisContext* context) {
  constexpr std::size_t kJobs = 100'000;
  std::vector<std::string> words{"SUBMIT", "echo", "JOBS"};
  for (std::size_t i = 0; i < kJobs; ++i) words.push_back(std::to_string(i) + std::string("\0\r\n", 3));
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  Reply batch = good(
      context, redisCommandArgv(context, static_cast<int>(words.size()), pointers.data(), lengths.data()));
  Reply status = good(context, redisCommand(context, "WAIT %s 30000", batch->str));
  CHECK(value(*status, "ok").integer == kJobs, "%lld", value(*status, "ok").integer);
  std::string cursor = "0";
  std::size_t seen = 0;
  do {
    Reply results =
        good(context, redisCommand(context, "RESULTS %s FROM %s COUNT 7000", batch->str, cursor.c_str()));
    cursor = text(*results->element[0]);
    const redisReply& rows = *results->element[1];
    for (std::size_t i = 0; i < rows.elements; ++i, ++seen) {
      const redisReply& row = *rows.element[i];
      const auto index = static_cast<std::size_t>(row.element[0]->integer);
      CHECK(index < kJobs && text(*row.element[2]) == words[index + 3], "job %zu", index);
    }
  } while (cursor != "0");
  CHECK(seen == kJobs, "%zu rows", seen);
}

void pipeline(redisContext* context) {
  constexpr int kCommands = 1000;
  for (int i = 0; i < kCommands; ++i) {
    CHECK(redisAppendCommand(context, "RUN echo JOBS %d", i) == REDIS_OK, "append");
  }
  for (int i = 0; i < kCommands; ++i) {
    void* raw = nullptr;
    CHECK(redisGetReply(context, &raw) == REDIS_OK, "%s", context->errstr);
    const Reply reply = good(context, raw);
    CHECK(text(*reply->element[0]->element[1]) == std::to_string(i), "%d", i);
  }
}

void errors(redisContext* context) {
  Reply reply(static_cast<redisReply*>(redisCommand(context, "SUBMIT nosuch JOBS a")));
  CHECK(reply && reply->type == REDIS_REPLY_ERROR, "an error is due");
  CHECK(text(*reply).starts_with("NOHANDLER "), "%s", reply->str);
  CHECK(text(*good(context, redisCommand(context, "PING"))) == "PONG", "it goes on after an error");
}

void messages(redisContext* context, redisContext* listener) {
  good(listener, redisCommand(listener, "SUBSCRIBE batch:heard"));
  good(context, redisCommand(context, "SUBMIT echo ID heard JOBS a"));
  for (bool done = false; !done;) {
    void* raw = nullptr;
    CHECK(redisGetReply(listener, &raw) == REDIS_OK, "%s", listener->errstr);
    const Reply message = good(listener, raw);
    CHECK(text(*message->element[0]) == "message", "%s", message->element[0]->str);
    done = text(*message->element[2]).find("\"event\":\"done\"") != std::string_view::npos;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: hiredis_test HOST PORT");
  const int port = std::atoi(argv[2]);
  const Context context = connect(argv[1], port);
  const Context listener = connect(argv[1], port);
  by_format(context.get());
  many_payloads(context.get());
  pipeline(context.get());
  errors(context.get());
  messages(context.get(), listener.get());
  std::puts("hiredis: all as it should be");
  return 0;
}
