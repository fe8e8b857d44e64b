// The log's line for each command that changes something.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io_thread.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class User;

// The audit: a line in the log, written as `info` at any level of the log, for each command that
// changes something. It names the user, the peer, the command, the batch, handler or customer, and
// the outcome. Never a payload, a password or another value of a client; of CONFIG SET the keys
// alone.
//
// Bounded for each user and second: kMostSubmissions lines for commands that bring jobs, and
// kMostOthers for all others. The next line says in `unlogged` how many were left out. Writes that
// the store refused later have kMostRefusals lines for each user and second, with the same member.
// A command whose line is left out costs one check of the gate, and no memory.
//
// Owned by ServerState. The I/O thread only. Nothing blocks or fails.
class Audit {
 public:
  // A second. Guesses: readable; the submissions of one user fill some 10 MB an hour.
  static constexpr std::uint32_t kMostSubmissions = 20;
  static constexpr std::uint32_t kMostOthers = 100;
  // One line for each connection whose replies had waited for the disk.
  static constexpr std::uint32_t kMostRefusals = 5;

  enum class Kind : std::uint8_t { kSubmission, kOther };

  // A line that is not written yet.
  struct Entry {
    std::string user;
    std::string peer;
    std::string command;   // "CANCEL", "CONFIG SET"
    std::string keys;      // of CONFIG SET
    std::string batch;     // its id; empty: none, or none was made
    std::string handler;   // of HANDLER RESTART
    std::string customer;  // of CUSTOMER SET and DEL, as the client said it
    std::string backup;    // of BACKUP: the folder, as the client said it
    std::string outcome;   // the code of the error reply; empty: ok
    std::uint64_t unlogged = 0;
  };

  // Writes to the sinks of `log`, at any level of `log`: the audit has a switch of its own.
  explicit Audit(const spdlog::logger& log);
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  // Takes the first word of an error reply.
  static std::string_view code_of(std::string_view error) { return error.substr(0, error.find(' ')); }

  void set_on(bool is_on) LOCKSLEY_REQUIRES(kIoThread) { is_on_ = is_on; }

  // Null: the line is left out, or there is no audit.
  std::unique_ptr<Entry> begin(const User& user, std::string_view peer, Kind kind)
      LOCKSLEY_REQUIRES(kIoThread);
  void write(const Entry& entry) LOCKSLEY_REQUIRES(kIoThread);
  // Commands whose replies had waited for the store were refused by it, after their lines.
  void refused_by_store(const User* user, std::string_view peer, std::uint64_t commands)
      LOCKSLEY_REQUIRES(kIoThread);

 private:
  struct Gates {
    RateGate submissions{std::chrono::seconds(1), kMostSubmissions};
    RateGate others{std::chrono::seconds(1), kMostOthers};
    RateGate refusals{std::chrono::seconds(1), kMostRefusals};
  };

  Gates& gates_of(const User& user) LOCKSLEY_REQUIRES(kIoThread);

  const std::shared_ptr<spdlog::logger> log_;
  bool is_on_ LOCKSLEY_GUARDED_BY(kIoThread) = true;
  std::vector<Gates> gates_ LOCKSLEY_GUARDED_BY(kIoThread);  // by Tenant::number
  Gates gates_without_user_ LOCKSLEY_GUARDED_BY(kIoThread);  // of connections whose user is removed
};

}  // namespace locksley::daemon
