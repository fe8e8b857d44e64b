#include "tests/support/postgres_proxy.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace locksley::testing {
namespace {

constexpr int kLookEvery = 5;  // ms
constexpr auto kLate = std::chrono::milliseconds(300);

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long for a socket: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool write_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

// The bytes that are there now; empty: the other side has closed.
std::string read_some(int socket) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = ::read(socket, buffer.data(), buffer.size());
  return got <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(got));
}

// The size of the first message of a client's bytes; 0: it is not whole. The very first has no
// letter.
std::size_t message_size(std::string_view bytes, bool is_first) {
  const std::size_t letter = is_first ? 0 : 1;
  if (bytes.size() < letter + 4) return 0;
  std::size_t size = letter;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[letter + i]);
  size += length;
  return bytes.size() < size ? 0 : size;
}

bool has_input(int socket, int wait_ms) {
  pollfd each{.fd = socket, .events = POLLIN, .revents = 0};
  return ::poll(&each, 1, wait_ms) > 0;
}

}  // namespace

PostgresProxy::PostgresProxy(const std::filesystem::path& server_socket) : server_(server_socket.string()) {
  std::string pattern = (std::filesystem::temp_directory_path() / "locksley-proxy-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  folder_ = pattern;
  listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = address_of(folder_ + "/.s.PGSQL.5432");
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, 64) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  acceptor_ = std::thread([this] { accept_all(); });
}

PostgresProxy::~PostgresProxy() {
  is_ending_ = true;
  acceptor_.join();
  std::vector<std::thread> links;
  {
    const MutexLock lock(mutex_);
    links.swap(links_);
  }
  for (std::thread& each : links) each.join();
  ::close(listener_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void PostgresProxy::accept_all() {
  while (!is_ending_) {
    if (!has_input(listener_, kLookEvery)) continue;
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) continue;
    const MutexLock lock(mutex_);
    links_.emplace_back([this, client] { serve(client); });
  }
}

PostgresProxy::Fault PostgresProxy::take_fault(const std::string& message) {
  // Bind: the portal, which has no name, and the statement.
  constexpr std::string_view kCommit("\0commit\0", 8);
  if (message.front() != 'B' || std::string_view(message).substr(5, kCommit.size()) != kCommit)
    return Fault::kNone;
  return fault_.exchange(Fault::kNone);
}

void PostgresProxy::serve(int client) {
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = address_of(server_);
  bool is_up = ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  bool is_first = true;
  std::string bytes;  // of the client
  bool loses_replies = false;
  while (is_up && !is_ending_) {
    if (is_frozen_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kLookEvery));
      continue;
    }
    std::array<pollfd, 2> both{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (::poll(both.data(), both.size(), kLookEvery) <= 0 || is_frozen_) continue;
    if (both[1].revents != 0) {
      const std::string replies = read_some(server);
      if (replies.empty() || loses_replies || !write_all(client, replies)) break;
    }
    if (both[0].revents == 0) continue;
    const std::string got = read_some(client);
    if (got.empty()) break;
    bytes += got;
    if (const std::size_t rate = bytes_per_second_; rate != 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(got.size() * 1'000'000 / rate));
    }
    for (std::size_t size = 0; is_up && (size = message_size(bytes, is_first)) != 0; is_first = false) {
      const std::string message = bytes.substr(0, size);
      const Fault fault = is_first ? Fault::kNone : take_fault(message);
      if (fault == Fault::kCutBefore) is_up = false;
      if (fault == Fault::kFreeze) {
        is_frozen_ = true;
        while (is_frozen_ && !is_ending_) std::this_thread::sleep_for(std::chrono::milliseconds(kLookEvery));
      }
      if (fault == Fault::kCutAfter) loses_replies = true;
      if (fault == Fault::kDeliverLate) {
        while (has_input(client, 100)) bytes += read_some(client);  // with the end of the pipeline
        ::shutdown(client, SHUT_RDWR);
        std::this_thread::sleep_for(kLate);
        write_all(server, bytes);
        read_some(server);
        is_up = false;
      }
      if (!is_up || !write_all(server, message)) {
        is_up = false;
        break;
      }
      bytes.erase(0, size);
    }
  }
  ::close(client);
  ::close(server);
}

}  // namespace locksley::testing
