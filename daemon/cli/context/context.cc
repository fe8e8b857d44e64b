#include "daemon/cli/context/context.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

using client::Address;
using client::ClientError;
using client::Expected;
using Kind = client::ClientError::Kind;

Expected<client::Client> Context::connect(int interrupt_fd, std::chrono::milliseconds patience,
                                          std::function<void(const ClientError&)> on_outage) const {
  client::ClientOptions options;
  options.name = "locksley";
  options.patience = patience;
  options.interrupt_fd = interrupt_fd;
  options.on_outage = std::move(on_outage);
  return client::Client::connect(addresses_, std::move(options));
}

int Context::fail(const ClientError& error) const {
  if (error.kind == Kind::kInterrupted) return 128 + signals_->take().value_or(2);
  std::string message = error.message;
  // The text for a HELLO without AUTH is that of Redis, for authors of client libraries.
  if (const std::size_t at = message.find("NOAUTH HELLO "); at != message.npos) {
    message.replace(at, message.npos, "NOAUTH this daemon has users: log in as one of them");
  }
  std::fprintf(stderr, "locksley: %s\n", printable(message).c_str());
  if (error.code == "NOAUTH" || error.code == "WRONGPASS") {
    std::fputs(
        "locksley: the user comes from --url redis://USER@HOST:PORT, the password from LOCKSLEY_PASSWORD or "
        "a "
        "file for --password-file\n",
        stderr);
    if (!addresses_.empty() && !addresses_.front().certificate.empty()) {
      std::fputs(
          "locksley: the certificate of --cert logs in the user whom the daemon's configuration gives its "
          "common name "
          "as users.NAME.certificate\n",
          stderr);
    }
  }
  if (error.kind == Kind::kUnavailable && error.message.ends_with("cannot connect: Connection refused")) {
    std::fputs("locksley: no daemon listens there: start locksleyd, or give --server or LOCKSLEY_URL\n",
               stderr);
  }
  return exit_code_of(error);
}

int exit_code_of(const ClientError& error) {
  switch (error.kind) {
    case Kind::kAddress:
      return daemon::kExitUsage;
    case Kind::kUnavailable:
      return daemon::kExitUnavailable;
    case Kind::kTimeout:
      return daemon::kExitTemporary;
    case Kind::kInterrupted:
      return daemon::kExitInterrupted;
    case Kind::kProtocol:
      return daemon::kExitProtocol;
    case Kind::kInput:
      return daemon::kExitNoInput;
    case Kind::kLocal:
      return daemon::kExitIoError;
    case Kind::kRefused:
      break;
  }
  if (error.code == "NOAUTH" || error.code == "WRONGPASS" || error.code == "NOPERM")
    return daemon::kExitNoPermission;
  if (error.code == "QUEUEFULL" || error.code == "STORE") return daemon::kExitTemporary;
  if (error.code == "DRAINING" || client::is_elsewhere(error.code)) return daemon::kExitUnavailable;
  return daemon::kExitDataError;
}

bool is_temporary(const ClientError& error) {
  return error.kind == Kind::kUnavailable || error.kind == Kind::kTimeout || error.code == "DRAINING" ||
         error.code == "STORE" || error.code == "QUEUEFULL" || client::is_elsewhere(error.code);
}

void say_it_was_there(const std::string& id) {
  std::fprintf(stderr, "locksley: batch %s was there already: nothing was started\n", printable(id).c_str());
}

bool is_outcome_unknown(const ClientError& error) {
  return error.kind == Kind::kUnavailable || error.kind == Kind::kTimeout || error.kind == Kind::kInterrupted;
}

void say_it_is_cancelled(const std::string& id, std::uint64_t jobs) {
  std::fprintf(stderr, "locksley: batch %s is cancelled; %s %s will not run\n", printable(id).c_str(),
               with_commas(jobs).c_str(), jobs == 1 ? "job" : "jobs");
}

void say_it_may_be_cancelled(const std::string& id) {
  std::fprintf(stderr,
               "locksley: batch %s may be cancelled: no reply to CANCEL came; see `locksley status %s`\n",
               printable(id).c_str(), printable(id).c_str());
}

void say_it_may_be_there(const ClientError& error, const std::string& id) {
  if (!is_outcome_unknown(error)) return;
  std::fprintf(stderr,
               "locksley: batch %s may have been submitted; the same command with --id %s does no harm\n",
               printable(id).c_str(), printable(id).c_str());
}

void say_how_to_go_on(const std::string& id) {
  std::fprintf(stderr,
               "locksley: batch %s is left open; the same command and input with --id %s goes on with it\n",
               printable(id).c_str(), printable(id).c_str());
}

Expected<std::vector<Address>> choose_addresses(const GlobalOptions& global, Environment environment,
                                                std::uint16_t default_port) {
  const auto from_environment = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  const bool by_option = !global.server.empty() || !global.url.empty();
  const std::string text =
      by_option ? (global.server.empty() ? global.url : global.server) : from_environment("LOCKSLEY_URL");
  auto addresses = client::parse_addresses(text.empty() ? Address{}.host : text, default_port);
  if (!addresses) return addresses;
  // All have the same user, password and TLS.
  Address shared = addresses->front();
  if (by_option && !shared.password.empty()) {
    return client::client_error(
        Kind::kAddress,
        "a password on the command line can be read by every user of this machine; put it "
        "into LOCKSLEY_PASSWORD or a file for --password-file");
  }
  if (!shared.tls && !(global.ca_file.empty() && global.certificate.empty())) {
    return client::client_error(
        Kind::kAddress, client::text_of(*addresses) +
                            ": --ca-file and --cert are for TLS, which a URL with rediss:// asks for");
  }
  shared.ca_file = global.ca_file.empty() ? from_environment("LOCKSLEY_CA_FILE") : global.ca_file;
  shared.certificate = global.certificate;
  shared.key = global.key;
  if (!global.password_file.empty()) {
    errno = 0;
    std::ifstream file(global.password_file);
    if (!std::getline(file, shared.password)) {
      const std::string reason = errno == 0 ? "it is empty" : std::strerror(errno);
      return client::client_error(Kind::kInput,
                                  global.password_file + ": no password can be read from it: " + reason);
    }
    if (shared.password.ends_with('\r')) shared.password.pop_back();  // of a file from Windows
  } else if (const std::string password = from_environment("LOCKSLEY_PASSWORD"); !password.empty()) {
    shared.password = password;
  }
  for (Address& address : *addresses) {
    shared.host = address.host;
    shared.port = address.port;
    address = shared;
  }
  return addresses;
}

int print(std::string_view text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return is_written ? daemon::kExitOk : failed_output(errno);
}

int print_line(const std::string& text) { return print(text + "\n"); }

int failed_output(int error) {
  if (error == EPIPE) return daemon::kExitBrokenPipe;
  std::fprintf(stderr, "locksley: standard output: %s\n", std::strerror(error));
  return daemon::kExitIoError;
}

}  // namespace locksley::cli
