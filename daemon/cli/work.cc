#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <expected>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"

// `locksley work` is locksleyd with a configuration that has one handler and an upstream, and
// without its ports: the code that runs programs is the daemon's.

namespace locksley::cli {
namespace {

// A user's name may have any character.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.') {
      result.push_back(c);
    } else {
      result.push_back('%');
      result.push_back(kDigits[byte >> 4]);
      result.push_back(kDigits[byte & 15]);
    }
  }
  return result;
}

// All addresses have the same user and TLS.
std::string url_of(const std::vector<client::Address>& addresses) {
  const client::Address& first = addresses.front();
  const std::string user = first.user.empty() ? "" : percent_encoded(first.user) + "@";
  return (first.tls ? "rediss://" : "redis://") + user + client::text_of(addresses);
}

// Makes a file in memory, for this user alone, that stays open in the program that replaces this
// one. Returns its path.
std::expected<std::string, std::string> file_of(std::string_view text) {
  const int file = ::memfd_create("locksley-work", 0);
  if (file < 0 || ::fchmod(file, S_IRUSR | S_IWUSR) != 0 ||
      ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return std::unexpected(std::string("no file in memory: ") + std::strerror(errno));
  return "/dev/fd/" + std::to_string(file);
}

nlohmann::json configuration(const std::vector<client::Address>& addresses, const WorkArguments& work,
                             const std::string& password_file) {
  const client::Address& address = addresses.front();
  nlohmann::json upstream = {{"url", url_of(addresses)}, {"name", work.name}, {"handlers", {work.handler}}};
  if (!password_file.empty()) upstream["password_file"] = password_file;
  if (!address.ca_file.empty()) upstream["ca_file"] = address.ca_file;
  if (!address.certificate.empty()) {
    upstream["cert_file"] = address.certificate;
    upstream["key_file"] = address.key;
  }
  if (work.insecure) upstream["insecure"] = true;
  return {{"upstream", std::move(upstream)},
          {"handlers", {{work.handler, {{"worker", work.program}, {"concurrency", work.slots}}}}},
          {"store", {{"path", ""}}}};
}

// The path of locksleyd beside this program, if it is there; else its name, to be looked up in
// PATH.
std::string daemon_program() {
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "locksleyd";
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside.string() : "locksleyd";
}

int fail(const std::string& problem) {
  std::fprintf(stderr, "locksley: %s\n", problem.c_str());
  return daemon::kExitSoftware;
}

}  // namespace

int run_work(Context& context, const WorkArguments& arguments) {
  const client::Address& address = context.addresses().front();
  std::string password_file;
  if (!address.password.empty()) {
    auto file = file_of(address.password + "\n");
    if (!file) return fail(file.error());
    password_file = *std::move(file);
  }
  const auto file = file_of(configuration(context.addresses(), arguments, password_file).dump());
  if (!file) return fail(file.error());
  const std::string program = daemon_program();
  // This program has blocked its signals, to read them from a descriptor.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execlp(program.c_str(), "locksleyd", "--work", "--config", file->c_str(), nullptr);
  return fail(program + ": " + std::strerror(errno));
}

}  // namespace locksley::cli
