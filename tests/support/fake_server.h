#pragma once

#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "core/sync/mutex.h"
#include "proto/clients/cpp/url.h"
#include "proto/command_reader.h"

// A namespace of its own, so that tests of clients name it once (`using namespace`).
namespace locksley::testing::fake {

using Words = std::vector<std::string>;

// What the fake server does about one command.
struct Answer {
  std::string bytes;    // sent as they are
  bool closes = false;  // and then the connection is closed
  static Answer text(std::string bytes) { return {std::move(bytes), false}; }
  static Answer drop() { return {"", true}; }
  static Answer silence() { return {"", false}; }
};

// A daemon for tests of clients: answers each command as the test's script says, on a loopback port
// of its own, and can drop connections or talk nonsense. HELLO and CLIENT SETINFO are answered as
// the daemon does, unless `script_hello`.
//
// Owned by the test. The script runs on the connections' threads, one call at a time. Nothing here
// waits for time. The destructor breaks all connections and joins.
class FakeServer {
 public:
  using Script = std::function<Answer(const Words& command)>;

  // `greeting` is sent to each connection before it has said anything.
  explicit FakeServer(Script script, bool script_hello = false, std::string greeting = {})
      : script_(std::move(script)),
        script_hello_(script_hello),
        greeting_(std::move(greeting)),
        acceptor_(io_, {asio::ip::make_address("127.0.0.1"), 0}),
        port_(acceptor_.local_endpoint().port()),
        accepting_([this] { accept(); }) {}

  ~FakeServer() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);  // wakes accept()
    accepting_.join();
    {
      const MutexLock lock(mutex_);
      for (auto& socket : sockets_) ::shutdown(socket.native_handle(), SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::uint16_t port() const { return port_; }
  // The address for a client of this server.
  client::Address address() const {
    client::Address address;
    address.host = "127.0.0.1";
    address.port = port_;
    return address;
  }

  // Commands received so far, HELLO and CLIENT left out unless the script has them.
  std::vector<Words> commands() {
    const MutexLock lock(mutex_);
    return commands_;
  }
  int connections() {
    const MutexLock lock(mutex_);
    return connections_;
  }

 private:
  void accept() {
    for (;;) {
      asio::error_code error;
      auto socket = acceptor_.accept(error);
      if (error) return;
      const MutexLock lock(mutex_);
      ++connections_;
      auto& kept = sockets_.emplace_back(std::move(socket));
      threads_.emplace_back([this, &kept] { serve(kept); });
    }
  }

  void serve(asio::ip::tcp::socket& socket) {
    proto::CommandReader reader;
    proto::Command command;
    asio::error_code error;
    asio::write(socket, asio::buffer(greeting_), error);
    while (!error) {
      const auto space = reader.prepare();
      reader.commit(socket.read_some(asio::buffer(space.data(), space.size()), error));
      if (error) return;
      while (reader.next(command) == proto::ReadStatus::kComplete) {
        Words words;
        for (std::size_t i = 0; i < command.arguments.size(); ++i) words.emplace_back(command.arguments[i]);
        const Answer answer = answer_to(words);
        asio::write(socket, asio::buffer(answer.bytes), error);
        if (answer.closes) ::shutdown(socket.native_handle(), SHUT_RDWR);
        if (answer.closes || error) return;
      }
    }
  }

  Answer answer_to(const Words& words) {
    const MutexLock lock(mutex_);
    if (!script_hello_ && words[0] == "HELLO") {
      return Answer::text("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n");
    }
    if (!script_hello_ && words[0] == "CLIENT") return Answer::text("+OK\r\n");
    commands_.push_back(words);
    return script_(words);
  }

  const Script script_;
  const bool script_hello_;
  const std::string greeting_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  const std::uint16_t port_;

  Mutex mutex_;
  // A list, because the connections' threads refer to their sockets.
  std::list<asio::ip::tcp::socket> sockets_ LOCKSLEY_GUARDED_BY(mutex_);
  std::vector<Words> commands_ LOCKSLEY_GUARDED_BY(mutex_);
  int connections_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;  // accepting_'s thread alone, until it is joined

  std::thread accepting_;  // last: it uses all the others
};

// A port at which connections are refused: it is bound, so no other program gets it, and nothing
// listens.
class Gone {
 public:
  explicit Gone(std::uint16_t port = 0) {
    socket_.open(asio::ip::tcp::v4());
    socket_.set_option(asio::socket_base::reuse_address(true));
    socket_.bind({asio::ip::make_address("127.0.0.1"), port});
  }
  client::Address address() const {
    client::Address address;
    address.host = "127.0.0.1";
    address.port = socket_.local_endpoint().port();
    return address;
  }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_{io_};
};

inline std::string bulk(const std::string& bytes) {
  return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
}

inline std::string integer(std::uint64_t value) { return ":" + std::to_string(value) + "\r\n"; }

// The reply to STATUS, with the fields that a client needs.
inline std::string status_map(const std::string& id, const std::string& state, std::uint64_t jobs,
                              std::uint64_t ok) {
  return "%5\r\n" + bulk("id") + bulk(id) + bulk("state") + bulk(state) + bulk("jobs") + integer(jobs) +
         bulk("ok") + integer(ok) + bulk("handler") + bulk("echo");
}

struct Row {
  std::uint64_t index;
  std::string status;
  std::string output;
};

inline std::string results_reply(std::uint64_t cursor, const std::vector<Row>& rows) {
  std::string reply = "*2\r\n" + bulk(std::to_string(cursor)) + "*" + std::to_string(rows.size()) + "\r\n";
  for (const Row& row : rows) reply += "*3\r\n" + integer(row.index) + bulk(row.status) + bulk(row.output);
  return reply;
}

// The value after `option` in a command; empty if it is not there.
inline std::string option_of(const Words& command, const std::string& option) {
  for (std::size_t i = 0; i + 1 < command.size(); ++i) {
    if (command[i] == option) return command[i + 1];
  }
  return {};
}

}  // namespace locksley::testing::fake
