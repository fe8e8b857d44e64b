#pragma once

#include <string>
#include <string_view>

#include "daemon/cli/options.h"
#include "daemon/cli/signals.h"
#include "proto/client/client.h"
#include "proto/client/error.h"

namespace locksley::cli {

// What every command has at hand: where the daemon is, how to speak to people, and the signals. Made by
// main(), lives as long as the program; its members may be called from the main thread alone.
class Context {
 public:
  Context(GlobalOptions global, client::Address address, Signals& signals)
      : global_(std::move(global)), address_(std::move(address)), signals_(&signals) {}

  // A connection of its own; `interrupt_fd` is the signals' unless the caller has a better one.
  client::Expected<client::Client> connect() const { return connect(signals_->fd()); }
  client::Expected<client::Client> connect(int interrupt_fd) const;

  // Prints the error, and returns the exit status that says it.
  int fail(const client::ClientError& error) const;

  bool json() const { return global_.json; }
  const client::Address& address() const { return address_; }
  Signals& signals() const { return *signals_; }

 private:
  GlobalOptions global_;
  client::Address address_;
  Signals* signals_;
};

// The daemon's address by the rules of `locksley --help`; `environment` is getenv, or a test's.
using Environment = const char* (*)(const char* name);
client::Expected<client::Address> choose_address(const GlobalOptions& global, Environment environment);

int exit_code_of(const client::ClientError& error);

// Writes all of it to standard output; false if that fails.
bool print(std::string_view text);

}  // namespace locksley::cli
