#include "tests/support/postgres_server.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
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

// Runs the program in a session of its own, and not as root; the program ends with this process.
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

std::vector<pid_t> children_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  return {std::istream_iterator<pid_t>(file), std::istream_iterator<pid_t>()};
}

// Whether the process runs; false for one that has ended and was not waited for.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
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
  // Commits that do not wait for the disk are lost with the server for as long as the writer of the
  // log sleeps.
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
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto begin = [this] {
    fs::remove(folder_ / "data/postmaster.pid");
    pid_ = spawn({programs() / "postgres", "-D", folder_ / "data"}, folder_ / "log");
  };
  begin();
  while (PQping(url().c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("PostgreSQL does not start: see " + (folder_ / "log").string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    // A server does not start while processes of the one that was killed still have its shared
    // memory.
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) begin();
  }
}

void PostgresServer::kill() {
  if (pid_ == 0) return;
  // The server's processes have groups of their own, and would serve their sessions for a moment
  // more. The server makes no others while it is stopped.
  ::kill(pid_, SIGSTOP);
  const std::vector<pid_t> children = children_of(pid_);
  for (const pid_t child : children) ::kill(child, SIGKILL);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::ranges::any_of(children, runs) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
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
