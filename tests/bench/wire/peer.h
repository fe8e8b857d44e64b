// What the peers' programs share: their command line, a socket that reads lines and writes in
// bursts, payloads that can be told apart, and the figures that they print.
//
// All of them are one process with a client (the main thread) and workers (a thread and a
// connection each). Anything that goes wrong is an exception that ends the program with status 1: a
// figure is printed only if every result came back, whole and once.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace locksley::wire {

using Clock = std::chrono::steady_clock;

template <class Number>
Number to_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error("a number was expected, found '" + std::string(text) + "'");
  }
  return number;
}

// What to do. In latency mode one job is underway at a time, and each is timed.
struct Plan {
  bool latency = false;
  std::uint16_t port = 0;
  std::uint64_t jobs = 0;
  std::uint64_t window = 1;  // jobs underway at most
  std::uint64_t count = 1;   // jobs in a command, where the protocol can
  std::uint64_t depth = 1;   // commands that ask for jobs or results, sent in one burst
  unsigned workers = 1;
};

// PROGRAM throughput|latency --port P --jobs N [--window W] [--count C] [--depth D] [--workers K]
inline Plan parse_plan(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  Plan plan;
  if (words.empty() || words.size() % 2 == 0 || (words[0] != "throughput" && words[0] != "latency")) {
    throw std::runtime_error(
        "usage: PROGRAM throughput|latency --port P --jobs N [--window W] [--count C] [--depth D] [--workers "
        "K]");
  }
  plan.latency = words[0] == "latency";
  for (std::size_t i = 1; i < words.size(); i += 2) {
    const std::string_view name = words[i], value = words[i + 1];
    if (name == "--port") {
      plan.port = to_number<std::uint16_t>(value);
    } else if (name == "--jobs") {
      plan.jobs = to_number<std::uint64_t>(value);
    } else if (name == "--window") {
      plan.window = to_number<std::uint64_t>(value);
    } else if (name == "--count") {
      plan.count = to_number<std::uint64_t>(value);
    } else if (name == "--depth") {
      plan.depth = to_number<std::uint64_t>(value);
    } else if (name == "--workers") {
      plan.workers = to_number<unsigned>(value);
    } else {
      throw std::runtime_error("unknown option " + std::string(name));
    }
  }
  if (plan.jobs > 99'999'999) throw std::runtime_error("--jobs: a payload has room for eight digits");
  if (plan.jobs == 0 || plan.count == 0 || plan.depth == 0 || plan.workers == 0 || plan.window < plan.count) {
    throw std::runtime_error("each number must be at least 1, and --window at least --count");
  }
  if (plan.latency && plan.window != 1)
    throw std::runtime_error("latency is of one job at a time: --window 1");
  return plan;
}

// A blocking TCP connection to 127.0.0.1. Output collects until flush(). The views that it returns
// are good until the next read. Blocking in both directions is safe because a client bounds what is
// underway: what is still to be read always fits the sockets' buffers.
//
// One thread reads and one writes, which may be the same; any may call shut_down(), which makes
// reads throw Ended.
class Stream {
 public:
  struct Ended : std::runtime_error {
    Ended() : std::runtime_error("the server closed the connection") {}
  };

  explicit Stream(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(fd_ >= 0 && ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    send_at_once();
  }
  struct Accepted {
    int fd;
  };
  explicit Stream(Accepted accepted) : fd_(accepted.fd) {
    require(fd_ >= 0);
    send_at_once();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::close(fd_); }

  Stream& operator<<(std::string_view text) {
    output_ += text;
    return *this;
  }
  Stream& operator<<(std::uint64_t number) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    output_.append(digits.data(), end);
    return *this;
  }
  void flush() {
    for (std::string_view left = output_; !left.empty();) {
      const ssize_t n = ::send(fd_, left.data(), left.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      require(n >= 0);
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    output_.clear();
  }

  // The next line, without its CRLF.
  std::string_view line() {
    for (std::size_t looked = 0;;) {
      const std::string_view unread = this->unread();
      if (const auto end = unread.find("\r\n", looked); end != unread.npos) {
        begin_ += end + 2;
        return unread.substr(0, end);
      }
      looked = unread.empty() ? 0 : unread.size() - 1;
      fill();
    }
  }
  std::string_view bytes(std::size_t count) {
    while (unread().size() < count) fill();
    const std::string_view result = unread().substr(0, count);
    begin_ += count;
    return result;
  }
  // Whether something was received and not yet taken.
  bool has_input() const { return begin_ < end_; }

  void shut_down() { ::shutdown(fd_, SHUT_RDWR); }

 private:
  static void require(bool good) {
    if (!good) throw std::system_error(errno, std::generic_category(), "socket");
  }
  void send_at_once() {
    const int on = 1;
    require(::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  }
  std::string_view unread() const { return {input_.data() + begin_, end_ - begin_}; }
  void fill() {
    if (begin_ > 0) {
      std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == input_.size()) input_.resize(2 * input_.size());
    ssize_t n = -1;
    do {
      n = ::recv(fd_, input_.data() + end_, input_.size() - end_, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) throw Ended();
    require(n > 0);
    end_ += static_cast<std::size_t>(n);
  }

  int fd_;
  std::string output_;
  std::vector<char> input_ = std::vector<char>(std::size_t{256} * 1024);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

constexpr std::size_t kPayloadBytes = 32;
constexpr std::size_t kDigits = 8;  // of a payload, at its end

// The payload of job `index`: the index in decimal, with zeros in front.
class Payload {
 public:
  explicit Payload(std::uint64_t index) {
    text_.fill('0');
    for (auto place = text_.end(); index > 0; index /= 10) *--place = static_cast<char>('0' + index % 10);
  }
  std::string_view view() const { return {text_.data(), text_.size()}; }

 private:
  std::array<char, kPayloadBytes> text_;
};

// What came back: every payload must be one that was sent, and come once.
class Results {
 public:
  explicit Results(std::uint64_t jobs) : seen_(jobs) {}

  void add(std::string_view payload) {
    const auto index = payload.size() == kPayloadBytes && payload.starts_with(kZeros)
                           ? to_number<std::uint64_t>(payload.substr(kPayloadBytes - kDigits))
                           : seen_.size();
    if (index >= seen_.size() || seen_[index]) {
      throw std::runtime_error("a result came that was not due: '" + std::string(payload) + "'");
    }
    seen_[index] = true;
    ++received_;
  }
  std::uint64_t received() const { return received_; }
  bool are_complete() const { return received_ == seen_.size(); }

 private:
  static constexpr std::string_view kZeros = "000000000000000000000000";
  static_assert(kZeros.size() == kPayloadBytes - kDigits);

  std::vector<bool> seen_;
  std::uint64_t received_ = 0;
};

// How long it took: of all jobs together, and in latency mode of each.
class Figures {
 public:
  explicit Figures(const Plan& plan) : plan_(plan) {
    if (plan.latency) nanoseconds_.reserve(plan.jobs);
  }

  void begin() { began_ = Clock::now(); }
  void add(Clock::duration one_job) {
    using std::chrono::nanoseconds;
    nanoseconds_.push_back(std::chrono::duration_cast<nanoseconds>(one_job).count());
  }
  void end() { ended_ = Clock::now(); }

  // One line of JSON.
  void print() {
    const double seconds = std::chrono::duration<double>(ended_ - began_).count();
    std::printf("{\"jobs\": %llu, \"seconds\": %.6f, \"jobs_per_second\": %.0f, \"client_cpu_seconds\": %.3f",
                static_cast<unsigned long long>(plan_.jobs), seconds,
                static_cast<double>(plan_.jobs) / seconds, cpu_seconds());
    if (plan_.latency) {
      std::ranges::sort(nanoseconds_);
      std::printf(", \"p50_us\": %.1f, \"p99_us\": %.1f", quantile_us(0.5), quantile_us(0.99));
    }
    std::puts("}");
  }

 private:
  static double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  }
  // By nearest rank, as `locksley bench` does.
  double quantile_us(double fraction) const {
    const auto rank =
        static_cast<std::size_t>(fraction * static_cast<double>(nanoseconds_.size()) + 0.999999);
    return static_cast<double>(nanoseconds_[std::max<std::size_t>(rank, 1) - 1]) / 1000;
  }

  Plan plan_;
  Clock::time_point began_;
  Clock::time_point ended_;
  std::vector<std::int64_t> nanoseconds_;
};

// Workers, each with a thread and a connection. `work` runs until its connection breaks: the
// destructor breaks all of them, and joins. A worker that fails before that ends the process, since
// its jobs would never come back.
template <class Connection>
class Workers {
 public:
  template <class Work>
  Workers(const Plan& plan, Work work) {
    for (unsigned i = 0; i < plan.workers; ++i) {
      Connection& connection = connections_.emplace_back(plan.port);
      threads_.emplace_back([this, &connection, plan, work] { run(connection, plan, work); });
    }
  }
  ~Workers() {
    is_over_ = true;
    for (Connection& connection : connections_) connection.shut_down();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

 private:
  template <class Work>
  void run(Connection& connection, const Plan& plan, Work work) {
    try {
      work(connection, plan);
    } catch (const std::exception& error) {
      if (is_over_) return;
      std::fprintf(stderr, "a worker failed: %s\n", error.what());
      std::_Exit(1);
    }
  }

  std::atomic<bool> is_over_ = false;  // set by the destructor, read by threads whose connection broke
  std::list<Connection> connections_;  // a list: threads refer to its elements
  std::vector<std::jthread> threads_;
};

// The body of a main(): what goes wrong is told, and the status says so.
template <class Run>
int run_peer(int argc, char** argv, Run run) {
  try {
    run(parse_plan(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace locksley::wire
