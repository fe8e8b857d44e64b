// The floor under the latencies: a server that reads a command of one job from a loopback socket,
// as RESP, and answers with its payload, as Locksley's RUN does; no queue, no batch, no scheduler.
// With --workers 2 the connection's thread hands the payload to a second one through a condition
// variable, and that one answers.
//
//   bare_echo latency --jobs N --workers 1|2

#include "core/sync/mutex.h"
#include "tests/bench/wire/peer.h"

namespace locksley::wire {
namespace {

using namespace std::string_view_literals;

// A listening socket on a free port of 127.0.0.1.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (fd_ < 0 || ::bind(fd_, generic, length) != 0 || ::listen(fd_, 1) != 0 ||
        ::getsockname(fd_, generic, &length) != 0) {
      throw std::system_error(errno, std::generic_category(), "listen");
    }
    port_ = ntohs(address.sin_port);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::close(fd_); }

  std::uint16_t port() const { return port_; }
  Stream::Accepted accept() { return {::accept(fd_, nullptr, nullptr)}; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

// Of a line such as "$32".
std::size_t length_behind(char kind, std::string_view line) {
  if (!line.starts_with(kind)) throw std::runtime_error("not RESP: " + std::string(line));
  return to_number<std::size_t>(line.substr(1));
}

std::string read_bulk(Stream& stream) {
  const std::size_t length = length_behind('$', stream.line());
  std::string text(stream.bytes(length));
  stream.bytes(2);  // CRLF
  return text;
}

void write_bulk(Stream& stream, std::string_view text) {
  stream << "$" << text.size() << "\r\n" << text << "\r\n";
}

std::string read_payload(Stream& stream) {
  std::string last;
  for (std::size_t words = length_behind('*', stream.line()); words > 0; --words) last = read_bulk(stream);
  return last;
}

void answer(Stream& stream, std::string_view payload) {
  stream << "*1\r\n*2\r\n";
  write_bulk(stream, "ok");
  write_bulk(stream, payload);
  stream.flush();
}

// Answers on a thread of its own, one payload after the other.
class SecondThread {
 public:
  explicit SecondThread(Stream& stream) : stream_(stream), thread_([this] { run(); }) {}
  ~SecondThread() {
    {
      const MutexLock lock(mutex_);
      is_stopping_ = true;
    }
    handed_over_.notify_one();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  void hand_over(std::string payload) {
    {
      const MutexLock lock(mutex_);
      payload_ = std::move(payload);
      is_waiting_ = true;
    }
    handed_over_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      MutexLock lock(mutex_);
      while (!is_waiting_ && !is_stopping_) handed_over_.wait(mutex_);
      if (!is_waiting_) return;
      is_waiting_ = false;
      const std::string payload = std::move(payload_);
      lock.unlock();
      answer(stream_, payload);
    }
  }

  Stream& stream_;  // this thread writes, the connection's thread reads
  Mutex mutex_;
  CondVar handed_over_;
  std::string payload_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_waiting_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // the payload, to be answered
  bool is_stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

// Until the client goes away.
void serve(Listener& listener, unsigned threads) {
  Stream stream(listener.accept());
  try {
    if (threads == 1) {
      for (;;) answer(stream, read_payload(stream));
    }
    SecondThread second(stream);
    for (;;) second.hand_over(read_payload(stream));
  } catch (const Stream::Ended&) {
  }
}

void run(const Plan& plan) {
  if (!plan.latency || plan.workers > 2) {
    throw std::runtime_error("only latency is measured, with --workers 1 or 2");
  }
  Listener listener;
  const std::jthread server([&] { serve(listener, plan.workers); });
  Stream stream(listener.port());
  Results results(plan.jobs);
  Figures figures(plan);
  figures.begin();
  for (std::uint64_t i = 0; i < plan.jobs; ++i) {
    const Payload payload(i);
    const auto began = Clock::now();
    stream << "*4\r\n";
    for (const std::string_view word : {"RUN"sv, "echo"sv, "JOBS"sv, payload.view()})
      write_bulk(stream, word);
    stream.flush();
    stream.line();  // *1
    stream.line();  // *2
    if (read_bulk(stream) != "ok") throw std::runtime_error("a job was not ok");
    results.add(read_bulk(stream));
    figures.add(Clock::now() - began);
  }
  figures.end();
  figures.print();
}

}  // namespace
}  // namespace locksley::wire

int main(int argc, char** argv) { return locksley::wire::run_peer(argc, argv, locksley::wire::run); }
