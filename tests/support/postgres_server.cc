#include "tests/support/postgres_server.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/quick_place.h"

namespace locksley::testing {
namespace {

namespace fs = std::filesystem;

// Debian has a folder for each version.
fs::path programs() {
  fs::path newest;
  std::error_code ignored;
  for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", ignored)) {
    if (fs::exists(version.path() / "bin/initdb") && version.path() > newest) newest = version.path();
  }
  if (newest.empty())
    throw std::runtime_error("PostgreSQL is not installed: deploy/install-dependencies --tests");
  return newest / "bin";
}

// Runs it in a session of its own, and not as root; it ends with this process.
pid_t spawn(std::vector<std::string> words, const fs::path& log) {
  const std::vector<std::string> as_other{"setpriv", "--reuid=postgres", "--regid=postgres",
                                          "--clear-groups"};
  std::vector<std::string> all{"setpriv", "--pdeathsig", "QUIT"};
  if (::geteuid() == 0) all.insert(all.begin(), as_other.begin(), as_other.end());
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> raw;
  for (std::string& word : all) raw.push_back(word.data());
  raw.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setsid();
  const int output = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0666);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::execvp(raw.front(), raw.data());
  ::_exit(127);
}

}  // namespace

PostgresServer::PostgresServer() {
  std::string pattern = (quick_place() / "locksley-postgres-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  folder_ = pattern;
  if (const passwd* user = ::getpwnam("postgres"); user != nullptr && ::geteuid() == 0) {
    if (::chown(folder_.c_str(), user->pw_uid, user->pw_gid) != 0)
      throw std::runtime_error("cannot chown " + pattern);
  }
  const pid_t made = spawn({programs() / "initdb", "-D", folder_ / "data", "-U", "locksley", "-A", "trust",
                            "--no-sync", "-E", "UTF8", "--locale=C"},
                           folder_ / "initdb.log");
  int status = 0;
  if (::waitpid(made, &status, 0) != made || status != 0) {
    throw std::runtime_error("initdb failed: see " + (folder_ / "initdb.log").string());
  }
  // Commits that do not wait for the disk are lost with the server for as long as the writer of the log sleeps.
  std::ofstream(folder_ / "data/postgresql.conf", std::ios::app)
      << "listen_addresses = ''\nunix_socket_directories = '" << folder_.string()
      << "'\nfsync = off\nfull_page_writes = off\nsynchronous_commit = on\nwal_writer_delay = 10s\n"
         "shared_buffers = 32MB\nmax_connections = 60\nautovacuum = off\n";
  start();
}

PostgresServer::~PostgresServer() {
  kill();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void PostgresServer::start() {
  if (pid_ != 0) return;
  fs::remove(folder_ / "data/postmaster.pid");
  pid_ = spawn({programs() / "postgres", "-D", folder_ / "data"}, folder_ / "log");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (PQping(url().c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > end || ::waitpid(pid_, nullptr, WNOHANG) != 0) {
      throw std::runtime_error("PostgreSQL does not start: see " + (folder_ / "log").string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void PostgresServer::kill() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);  // its processes have its group
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
  // Children that are gone keep their shared memory for a moment.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

std::string PostgresServer::url(const std::string& options) const {
  std::string encoded;
  for (const char c : options) encoded += c == '=' ? "%3D" : std::string(1, c);
  return "postgresql://locksley@/postgres?host=" + folder_.string() +
         (encoded.empty() ? "" : "&options=" + encoded);
}

PostgresServer& postgres_server() {
  static PostgresServer server;
  return server;
}

}  // namespace locksley::testing
