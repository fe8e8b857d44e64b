// A PostgreSQL server of the test program's own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace locksley::testing {

// A server in a folder of its own, in memory if there is room, without a port: clients find its
// socket in the folder. Not as root, which the server refuses to be: then as the user postgres. The
// constructor makes it, which takes a second, and starts it; the destructor kills it. Throws
// std::runtime_error. One thread, which lives as long as the server: that ends with it.
class PostgresServer {
 public:
  PostgresServer();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Waits until it accepts connections.
  void start();
  // As a loss of power, but for what the operating system has: kill -9 of all its processes.
  void kill();
  bool is_running() const { return pid_ != 0; }

  // A database of it, with `options` such as `-csearch_path=name`.
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
