#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/units.h"

// The configuration as plain values: one struct a section, one member a key, named as in the file, each with
// its default. deploy/locksley.yaml explains every key to the person who writes the file, and a test holds
// the two together. schema.h lists the keys with their bounds.
//
// A Config is an ordinary value: copy it, compare it, share a const one between threads. It owns everything
// it names and refers to nothing, the file included. One that came from load_file() or load_text() is valid;
// one built in code is valid if check() in validate.h says so.

namespace locksley::config {

// Whether a client has to show a certificate that `client_ca` signed, or may do without and give a password.
enum class ClientCertificates { kRequired, kOptional };

// Certificate chain and private key in PEM files; all empty: plain TCP. The files are read again at every
// reload.
struct Tls {
  std::string certificate;
  std::string key;
  std::string client_ca;  // not empty: clients are asked for a certificate that this authority signed
  ClientCertificates clients = ClientCertificates::kRequired;  // without client_ca: nobody is asked
  bool operator==(const Tls&) const = default;
};

// The wire protocol's socket.
struct Listen {
  std::string address = "127.0.0.1";  // IPv4 or IPv6, numeric
  std::uint16_t port = 7770;          // 0: any free port
  std::uint32_t threads = 1;          // that serve connections
  Tls tls;
  bool operator==(const Listen&) const = default;
};

// Who is served by the HTTP side.
enum class HttpLogin {
  kNone,   // everybody
  kUsers,  // users with their passwords (basic authentication), and whoever has the token
};

// Metrics, health and the dashboard.
struct Http {
  std::string address = "127.0.0.1";
  std::uint16_t port = 9770;
  HttpLogin login = HttpLogin::kNone;
  std::string token_file;  // holds the token of `Authorization: Bearer`; empty: there is none
  Tls tls;
  bool operator==(const Http&) const = default;
};

struct Pool {
  std::uint32_t workers = 0;  // 0: one per CPU that the process may use; whoever builds the pool counts them
  bool operator==(const Pool&) const = default;
};

enum class Share {
  kTime,  // fair in worker time
  kJobs,  // fair in number of jobs
};

struct Scheduling {
  Share share = Share::kTime;
  Duration quantum = std::chrono::milliseconds{1};  // about how long a worker serves one batch at a time
  std::uint32_t reserved_workers = 0;               // kept for batches whose jobs are short
  bool operator==(const Scheduling&) const = default;
};

struct Limits {
  std::uint64_t max_clients = 10'000;
  std::uint64_t max_batch_jobs = 10'000'000;
  Bytes max_payload = mebibytes(64);
  Bytes max_command = gibibytes(1);
  std::uint64_t max_queued_jobs = 100'000'000;
  Bytes max_queued_bytes = gibibytes(8);
  Duration idle_timeout{0};                           // 0: connections may be silent for ever
  Duration login_timeout = std::chrono::seconds{10};  // for a connection's TLS handshake and password
  Duration open_timeout = std::chrono::hours{1};      // an open batch that nothing is added to closes itself
  Bytes output_buffer = mebibytes(64);                // replies that wait for one slow reader
  Bytes client_memory = gibibytes(2);                 // replies and subscriptions of all connections together
  bool operator==(const Limits&) const = default;
};

enum class Durability {
  kFsync,  // accepted means on disk
  kAsync,  // accepted means with the operating system, and on disk a second later
  kNone,   // accepted means with the operating system
};

struct Store {
  std::string path = "./locksley-data";  // "": memory only
  Durability durability = Durability::kFsync;
  Duration retention = std::chrono::hours{24};  // of finished batches
  Bytes max_bytes{0};                           // 0: bounded by age alone
  bool operator==(const Store&) const = default;
};

enum class Input {
  kStdin,     // a job's payload is the process's standard input
  kArgument,  // it replaces {} in the arguments
  kFile,      // {} in the arguments is replaced by the name of a file that holds it
};

// Whether a plugin's jobs run in processes of their own, where a crash is one job's.
enum class Isolate { kNo, kYes };

enum class Network { kYes, kNo };

// What a process of a handler may reach. Both lists empty: all files.
struct Confine {
  std::vector<std::string> read;    // files and folders that it may read and run
  std::vector<std::string> write;   // that it may write, too
  Network network = Network::kYes;  // TCP
  bool operator==(const Confine&) const = default;
};

// What the kernel holds a process of a handler to; 0: no limit of its own.
struct ProcessLimits {
  Duration cpu{0};              // processor time, whole seconds
  Bytes memory{0};              // address space
  Bytes file_size{0};           // of a file that it writes
  std::uint64_t files = 0;      // open at once
  std::uint64_t processes = 0;  // of its user, at once
  bool operator==(const ProcessLimits&) const = default;
};

// A handler outside the daemon. Exactly one of command, worker and plugin is set.
struct Handler {
  std::vector<std::string> command;  // program and arguments: one process a job
  std::vector<std::string> worker;   // program and arguments: long-lived processes
  std::string plugin;                // shared object
  Input input = Input::kStdin;
  std::uint32_t concurrency = 1;
  std::optional<Rate> rate;
  Duration timeout{0};  // of a job; 0: none
  std::uint32_t retries = 0;
  // Of processes only: commands, workers and plugins with `isolate`; as concurrency and rate are.
  std::string directory;                     // that they work in; empty: the daemon's
  std::vector<std::string> environment;      // NAME=value each; beside it they get PATH and what the job is
  std::string user;                          // that they run as; empty: process.user
  Bytes max_output = mebibytes(16);          // of a job; more ends it
  Duration grace = std::chrono::seconds{5};  // from SIGTERM to SIGKILL
  ProcessLimits limits;
  Confine confine;
  // Of workers and plugins with `isolate` only: a process is replaced after so many jobs, or when it takes so
  // much memory; 0: never.
  std::uint64_t max_jobs = 0;
  Bytes max_memory{0};
  Isolate isolate = Isolate::kNo;  // of plugin only
  bool operator==(const Handler&) const = default;
};

// Which commands a user may send.
enum class CommandGroup {
  kSubmit,
  kRead,
  kControl,
  kAdmin,  // all batches, other clients, the configuration
};

// Whoever may submit, and the tenant that the batches then belong to. At least one of password_hash and
// certificate is set.
struct User {
  std::string password_hash;          // argon2id, encoded
  std::string certificate;            // common name of the client certificate that stands for the user
  std::uint32_t weight = 1;           // share against other users
  std::vector<std::string> handlers;  // that the user may submit to; empty: all
  std::vector<CommandGroup> commands{CommandGroup::kSubmit, CommandGroup::kRead, CommandGroup::kControl};
  // Of all the user's batches or connections together; 0: only what `limits` says.
  std::uint64_t max_queued_jobs = 0;
  Bytes max_queued_bytes{0};
  std::uint64_t max_batches = 0;  // that are not over
  std::uint64_t max_clients = 0;
  bool operator==(const User&) const = default;
};

// Bounds on label values.
struct Metrics {
  std::uint32_t deepest_batches = 10;
  std::uint32_t tenants = 50;
  bool operator==(const Metrics&) const = default;
};

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };
enum class LogFormat { kText, kJson };

struct Log {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  bool operator==(const Log&) const = default;
};

// Whether the kernel may write the daemon's memory to a file when it crashes, and other processes of its user
// may look into it.
enum class CoreDumps { kNo, kYes };

struct Process {
  std::string user;  // that the daemon runs as once it has its ports; empty: as it was started
  CoreDumps core_dumps = CoreDumps::kNo;
  bool operator==(const Process&) const = default;
};

struct Shutdown {
  Duration drain_timeout = std::chrono::seconds{30};  // then what still runs is stopped
  bool operator==(const Shutdown&) const = default;
};

struct Config {
  Listen listen;
  Http http;
  Pool pool;
  Scheduling scheduling;
  Limits limits;
  Store store;
  std::map<std::string, Handler> handlers;  // by name
  std::map<std::string, User> users;        // by name; empty: no authentication, loopback peers only
  Metrics metrics;
  Log log;
  Process process;
  Shutdown shutdown;
  bool operator==(const Config&) const = default;
};

}  // namespace locksley::config
