// A PostgreSQL server of the test program's own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace locksley::testing {

// A server in a folder of its own, in memory if there is room, without a port: clients find its
// socket in the folder. If the test is root, which PostgreSQL refuses, the server runs as the user
// postgres. The constructor makes it, which takes a second, and starts it; the destructor kills it.
// Throws std::runtime_error. One thread uses it and must live as long as the server, which ends
// with that thread.
class PostgresServer {
 public:
  PostgresServer();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Waits until it accepts connections.
  void start();
  // Kills all its processes (kill -9), like a loss of power, except that the operating system keeps
  // what was written.
  void kill();
  bool is_running() const { return pid_ != 0; }

  // The URL of a database of it, with `options` such as `-csearch_path=name`.
  std::string url(const std::string& options = {}) const;
  // The socket, as an address for a proxy.
  std::filesystem::path socket() const { return folder_ / ".s.PGSQL.5432"; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  pid_t pid_ = 0;
};

// The one server of this program, which the first call makes.
PostgresServer& postgres_server();

}  // namespace locksley::testing
