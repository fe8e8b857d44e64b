// What all commands share: connections to the daemon, exit statuses, and messages that several of
// them have.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/context/options.h"
#include "daemon/cli/context/signals.h"
#include "proto/clients/cpp/client.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// What every command needs: the daemon's addresses, the format of the output, and the signals. Made
// by main(), lives as long as the program. Only the main thread may call its members.
class Context {
 public:
  // `addresses`: at least one, of daemons of which one serves.
  Context(GlobalOptions global, std::vector<client::Address> addresses, Signals& signals)
      : global_(std::move(global)), addresses_(std::move(addresses)), signals_(&signals) {}

  // A new connection. `interrupt_fd` is the descriptor of the signals unless the caller gives
  // another.
  client::Expected<client::Client> connect() const { return connect(signals_->fd()); }
  // `patience`: for how long the client tries to connect again when the daemon has gone.
  // `on_outage`: see ClientOptions.
  client::Expected<client::Client> connect(
      int interrupt_fd, std::chrono::milliseconds patience = client::ClientOptions().patience,
      std::function<void(const client::ClientError&)> on_outage = {}) const;
  // The patience of a command that submits: a restart of the daemon does not end it. Guess: a
  // restart with a large store, by a service manager that pauses in between.
  static constexpr std::chrono::seconds kFeedPatience{60};

  // Prints the error, and returns its exit status. An interruption prints nothing: its exit status
  // is 128 + the signal.
  int fail(const client::ClientError& error) const;

  bool json() const { return global_.json; }
  const std::vector<client::Address>& addresses() const { return addresses_; }
  Signals& signals() const { return *signals_; }

 private:
  GlobalOptions global_;
  std::vector<client::Address> addresses_;
  Signals* signals_;
};

// The address of the daemon, or the addresses of several daemons, by the rules of `locksley
// --help`; `environment` is getenv, or a test's function. Fails with kAddress, and with kInput if
// the password file cannot be read.
using Environment = const char* (*)(const char* name);
client::Expected<std::vector<client::Address>> choose_addresses(
    const GlobalOptions& global, Environment environment, std::uint16_t default_port = client::kDefaultPort);
inline constexpr std::uint16_t kWorkersPort = 7771;  // the default port for remote workers

int exit_code_of(const client::ClientError& error);

// Whether the same command may succeed later.
bool is_temporary(const client::ClientError& error);
// Whether the command may have reached the daemon, and may have been executed.
bool is_outcome_unknown(const client::ClientError& error);
// Says on standard error that a batch is cancelled, and that `jobs` of its jobs will not run.
void say_it_is_cancelled(const std::string& id, std::uint64_t jobs);
// Says on standard error, after a CANCEL without a reply, that the batch may be cancelled.
void say_it_may_be_cancelled(const std::string& id);
// Says on standard error that a batch was submitted before, with the same jobs.
void say_it_was_there(const std::string& id);
// Says on standard error, after an error that leaves it unknown, that the batch may have been
// submitted.
void say_it_may_be_there(const client::ClientError& error, const std::string& id);
// Says on standard error how to continue a stream that was interrupted.
void say_how_to_go_on(const std::string& id);

// Writes the whole text to standard output. Returns the exit status: kExitOk, or that of
// failed_output().
int print(std::string_view text);
int print_line(const std::string& text);  // the same, with a newline

// The exit status after a write to standard output that failed with this errno. Says why on
// standard error, unless the reader of standard output has gone, as with `| head`.
int failed_output(int error);

}  // namespace locksley::cli
