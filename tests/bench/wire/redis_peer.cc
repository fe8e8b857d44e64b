// Jobs over Redis lists, by hiredis: the client pushes payloads to the list `jobs`, workers pop
// them and push them to the list `results`, where the client pops them. Both go in bursts, each
// sent with one write:
//
//   client: RPUSH jobs ...      (as many as the window has room for)    and pops of `results`
//   worker: RPUSH results ...   (what the last burst brought)           and pops of `jobs`
//
// The pops are --depth in number, first BLMPOP, then LMPOPs: the first waits for something to pop,
// the others take what is there. A pop takes up to --count jobs, and a push has as many.

#include <hiredis/hiredis.h>

#include <initializer_list>
#include <memory>

#include "tests/bench/wire/peer.h"

namespace locksley::wire {
namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

std::string_view text(const redisReply& reply) { return {reply.str, reply.len}; }

// Commands collect until reply() needs an answer. Fails with an exception; as thread-safe as Stream
// is.
class Redis {
 public:
  explicit Redis(std::uint16_t port) : context_(redisConnect("127.0.0.1", port)) {
    if (!context_ || context_->err != 0) throw std::runtime_error("cannot connect to Redis");
  }

  void push(const char* list, const std::vector<std::string_view>& payloads) {
    words_.assign({"RPUSH", list});
    lengths_.assign({5, std::strlen(list)});
    for (const std::string_view payload : payloads) {
      words_.push_back(payload.data());
      lengths_.push_back(payload.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(words_.size()), words_.data(), lengths_.data());
  }
  // Commands as they go over the wire.
  void append(const std::string& commands) {
    redisAppendFormattedCommand(context_.get(), commands.data(), commands.size());
  }

  Reply reply() {
    void* raw = nullptr;
    if (redisGetReply(context_.get(), &raw) != REDIS_OK) throw std::runtime_error(context_->errstr);
    Reply reply(static_cast<redisReply*>(raw));
    if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(std::string(text(*reply)));
    return reply;
  }

  void shut_down() { ::shutdown(context_->fd, SHUT_RDWR); }

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  std::unique_ptr<redisContext, FreeContext> context_;
  std::vector<const char*> words_;
  std::vector<std::size_t> lengths_;
};

std::string command(std::initializer_list<std::string> words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

// What a burst ends with: pops of up to `count` payloads each. Formatted once, not for each burst.
std::string pops(const std::string& list, const Plan& plan) {
  const std::string count = std::to_string(plan.count);
  std::string commands = command({"BLMPOP", "0", "1", list, "LEFT", "COUNT", count});
  for (std::uint64_t i = 1; i < plan.depth; ++i)
    commands += command({"LMPOP", "1", list, "LEFT", "COUNT", count});
  return commands;
}

// Calls `take` with each payload that a pop brought; none, if there was nothing to pop.
template <class Take>
void for_each_payload(const redisReply& popped, Take take) {
  if (popped.type == REDIS_REPLY_NIL) return;
  const redisReply& payloads = *popped.element[1];  // behind the name of the list
  for (std::size_t i = 0; i < payloads.elements; ++i) take(text(*payloads.element[i]));
}

void work(Redis& redis, const Plan& plan) {
  const std::string pop_jobs = pops("jobs", plan);
  std::vector<Reply> popped;
  std::vector<std::string_view> payloads;
  for (;;) {
    std::size_t pushes = 0;
    for (const Reply& reply : popped) {
      payloads.clear();
      for_each_payload(*reply, [&](std::string_view payload) { payloads.push_back(payload); });
      if (payloads.empty()) continue;
      redis.push("results", payloads);
      ++pushes;
    }
    redis.append(pop_jobs);
    for (; pushes > 0; --pushes) redis.reply();
    popped.clear();
    while (popped.size() < plan.depth) popped.push_back(redis.reply());
  }
}

// Pushes the jobs from `first` on.
void push_jobs(Redis& redis, std::uint64_t first, std::uint64_t count) {
  std::vector<Payload> payloads;
  std::vector<std::string_view> views;
  payloads.reserve(count);
  views.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) views.push_back(payloads.emplace_back(first + i).view());
  redis.push("jobs", views);
}

void run(const Plan& plan) {
  const Workers<Redis> workers(plan, work);
  Redis redis(plan.port);
  const std::string pop_results = pops("results", plan);
  Results results(plan.jobs);
  Figures figures(plan);
  std::uint64_t sent = 0;
  figures.begin();
  while (!results.are_complete()) {
    const auto began = Clock::now();
    std::size_t pushes = 0;
    while (sent < plan.jobs) {
      const std::uint64_t count = std::min(plan.count, plan.jobs - sent);
      if (sent - results.received() + count > plan.window) break;
      push_jobs(redis, sent, count);
      sent += count;
      ++pushes;
    }
    redis.append(pop_results);
    for (; pushes > 0; --pushes) redis.reply();
    for (std::uint64_t i = 0; i < plan.depth; ++i) {
      for_each_payload(*redis.reply(), [&](std::string_view payload) { results.add(payload); });
    }
    if (plan.latency) figures.add(Clock::now() - began);
  }
  figures.end();
  figures.print();
}

}  // namespace
}  // namespace locksley::wire

int main(int argc, char** argv) { return locksley::wire::run_peer(argc, argv, locksley::wire::run); }
