#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/units.h"

// The configuration as plain values: a struct for each section, a member for each key, named as in
// the file and with its default. deploy/locksley.yaml explains every key to the author of a file; a
// test compares the two. schema.h lists the keys with their bounds.
//
// A Config is an ordinary value: copy it, compare it, share a const one between threads. It refers
// to nothing outside itself. A Config from load_file() or load_text() is valid; one built in code
// is valid if check() in validate.h reports no problem.

namespace locksley::config {

// Whether a client must show a certificate that `client_ca` signed, or may give a password instead.
enum class ClientCertificates { kRequired, kOptional };

// Certificate chain and private key in PEM files; all empty: plain TCP. Every reload reads the
// files again.
struct Tls {
  std::string certificate;
  std::string key;
  std::string client_ca;  // not empty: clients are asked for a certificate that this authority signed
  ClientCertificates clients = ClientCertificates::kRequired;  // without client_ca: not used
  bool operator==(const Tls&) const = default;
};

// From which addresses remote workers may connect without TLS. Others on the network can then read
// payloads and results.
enum class Plain {
  kOnThisMachine,
  kEverywhere,
};

// The wire protocol's socket.
struct Listen {
  std::string address = "127.0.0.1";  // IPv4 or IPv6, numeric
  std::uint16_t port = 7770;          // 0: a free port
  Limit threads = auto_limit();       // threads that serve connections: the I/O thread, and network threads
  Tls tls;
  bool operator==(const Listen&) const = default;
};

// Whom the HTTP side serves.
enum class HttpLogin {
  kNone,   // every client
  kUsers,  // users with their passwords (basic authentication), and holders of the token
};

// Metrics, health and the dashboard.
struct Http {
  std::string address = "127.0.0.1";
  std::uint16_t port = 9770;
  HttpLogin login = HttpLogin::kNone;
  std::string token_file;  // file with the token for `Authorization: Bearer`; empty: no token
  // Names under which the pages are served without a login, beside addresses, localhost and the
  // machine's name.
  std::vector<std::string> hosts;
  Tls tls;
  bool operator==(const Http&) const = default;
};

// The port to which remote workers connect. It is opened if a handler is `remote`.
struct Workers {
  std::string address = "127.0.0.1";  // IPv4 or IPv6, numeric
  std::uint16_t port = 7771;          // 0: a free port
  Tls tls;
  Plain insecure = Plain::kOnThisMachine;
  // How long a worker may be silent, unless it asks for another time.
  Duration lease = std::chrono::seconds{10};
  // After a restart: how long jobs of remote handlers wait for their workers.
  Duration reclaim = std::chrono::seconds{3};
  std::uint32_t max_losses = 3;           // of a job, with its worker; then it ends as crashed
  Bytes max_leased_bytes = gibibytes(1);  // payloads that are out, of all workers
  bool operator==(const Workers&) const = default;
};

struct Pool {
  std::uint32_t workers = 0;  // 0: one for each CPU that the process may use
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
  std::uint64_t max_customers = 100'000;                    // of a user, that have settings of their own
  Limit max_queued_bytes = auto_limit(gibibytes(8).count);  // payloads in memory
  Limit max_result_bytes = auto_limit(gibibytes(4).count);  // results in memory
  Limit max_record_bytes = auto_limit(gibibytes(2).count);  // the other data about batches
  Duration idle_timeout{0};                                 // 0: no limit
  Duration login_timeout = std::chrono::seconds{10};        // for a connection's TLS handshake and password
  Duration open_timeout = std::chrono::hours{1};            // of an open batch without its client
  Bytes output_buffer = mebibytes(64);                      // unread replies of one connection
  Limit client_memory = auto_limit(gibibytes(2).count);     // replies and subscriptions of all connections
  Bytes max_log_bytes = mebibytes(64);                      // standard error of running jobs
  bool operator==(const Limits&) const = default;
};

enum class Durability {
  kFsync,  // accepted means on disk
  kAsync,  // accepted means passed to the operating system, and on disk within a second
  kNone,   // accepted means passed to the operating system
};

// The engine that keeps the rows of the store.
enum class StoreEngine {
  kRocksdb,     // part of the daemon, in a folder
  kPostgresql,  // a server, which another daemon can take over
};

// The protection of a server's rows against the loss of one machine.
enum class Replication {
  kRequired,  // a synchronous standby: the daemon refuses a server without one
  kProvider,  // the storage below the server
  kNone,      // nothing: the row is on one machine's disk
};

struct Store {
  std::string path = "./locksley-data";  // "": memory only
  Durability durability = Durability::kFsync;
  Duration retention = std::chrono::hours{24};  // of finished batches
  Limit max_bytes = auto_limit();               // 0: limited only by age
  StoreEngine engine = StoreEngine::kRocksdb;
  std::string url = {};  // of the server, for kPostgresql, which needs no path; may have a password
  Replication replication = Replication::kRequired;
  // BACKUP makes copies of the store below it, with kRocksdb; empty: it makes none.
  std::string backup_directory = {};
  bool operator==(const Store&) const = default;
};

// The name of this daemon among those that share the database, and the addresses to which the
// others send clients and workers.
struct Cluster {
  std::string name = {};       // "": the name of the machine
  std::string advertise = {};  // host:port for clients; "": the address and port of `listen`
  // host:port for remote workers; "": the host of `advertise`, or the address of `workers`, with
  // the port of `workers`
  std::string advertise_workers = {};
  bool operator==(const Cluster&) const = default;
};

enum class Input {
  kStdin,     // a job's payload is the process's standard input
  kArgument,  // it replaces {} in the arguments
  kFile,      // {} in the arguments is replaced by the name of a file that holds it
};

// Whether a plugin's jobs run in processes of their own, where a crash fails only one job.
enum class Isolate { kNo, kYes };

enum class Network { kYes, kNo };

// Whether remote workers may run a handler's jobs.
enum class Remote { kNo, kYes };

// The files and the network that a process of a handler can reach. Both lists empty: all files.
struct Confine {
  std::vector<std::string> read;    // files and folders that it may read and run
  std::vector<std::string> write;   // files and folders that it may also write
  Network network = Network::kYes;  // TCP
  bool operator==(const Confine&) const = default;
};

// The kernel's limits of a process of a handler; 0: no limit of its own.
struct ProcessLimits {
  Duration cpu{0};              // processor time, whole seconds
  Bytes memory{0};              // address space
  Bytes file_size{0};           // of a file that it writes
  std::uint64_t files = 0;      // open at once
  std::uint64_t processes = 0;  // of its user, at once
  bool operator==(const ProcessLimits&) const = default;
};

// The slots of a lane, each in one running job at a time.
struct Slots {
  std::uint32_t count = 0;         // with names: how many names
  std::vector<std::string> names;  // empty: the slots are called "0", "1", ...
  bool operator==(const Slots&) const = default;
};

// A lane that handlers share.
struct Lane {
  Slots slots;
  // A worker's process that has had no jobs for so long is ended; 0: never.
  Duration idle_timeout = std::chrono::seconds{60};
  bool operator==(const Lane&) const = default;
};

// How much a job may write to its standard output by default. Guess.
inline constexpr Bytes kUsualOutput = mebibytes(16);

// A handler outside the daemon. Exactly one of command, worker and plugin is set; none of them:
// only remote workers run its jobs.
struct Handler {
  // Its payloads are commands: only for the handler of `exec: true` (lanes.h), which the file does
  // not list.
  bool runs_payloads = false;
  std::vector<std::string> command;  // program and arguments: one process for each job
  std::vector<std::string> worker;   // program and arguments: long-lived processes
  std::string plugin;                // shared object
  Input input = Input::kStdin;
  std::string lane;               // whose slots its processes use; empty: `processes` (lanes.h)
  std::uint32_t concurrency = 1;  // jobs at once, within its lane
  std::optional<Rate> rate;       // of starts; none, or a count of 0: no limit
  Duration timeout{0};            // of a job; 0: none
  std::uint32_t retries = 0;
  // Only for processes (commands, workers and plugins with `isolate`), like concurrency and rate.
  std::string directory;                     // working directory; empty: the daemon's
  std::vector<std::string> environment;      // NAME=value each, in addition to PATH and LOCKSLEY_...
  std::string user;                          // user of the processes; empty: process.user
  Bytes max_output = kUsualOutput;           // of a job; more fails the job
  Duration grace = std::chrono::seconds{5};  // from SIGTERM to SIGKILL
  ProcessLimits limits;
  Confine confine;
  // Only for workers and plugins with `isolate`: a process is replaced after this many jobs, or
  // when it uses more memory than this; 0: never.
  std::uint64_t max_jobs = 0;
  std::uint32_t worker_protocol = 1;  // only for workers; 2: messages with names, answers in any order
  Bytes max_memory{0};
  Isolate isolate = Isolate::kNo;  // only for plugins
  Remote remote = Remote::kNo;
  std::uint32_t max_running = 0;  // only with remote: jobs at once, here and there together; 0: no limit
  bool operator==(const Handler&) const = default;
};

// Which commands a user may send.
enum class CommandGroup {
  kSubmit,
  kRead,
  kControl,
  kAdmin,  // all batches, other clients, the configuration
  kWork,   // to run other users' jobs, as a remote worker
};

// The settings of customers that CUSTOMER SET has not changed.
struct Customers {
  std::uint32_t weight = 1;           // share compared with the user's other customers
  std::uint32_t slots = 0;            // jobs at once; 0: no limit of its own
  Rate rate{0};                       // of starts; a count of 0: no limit
  std::uint64_t max_queued_jobs = 0;  // 0: only the limits of the user and of all users
  bool operator==(const Customers&) const = default;
};

// The same for the customers of one user; an absent setting is that of Config::customers.
struct UserCustomers {
  std::optional<std::uint32_t> weight = {};
  std::optional<std::uint32_t> slots = {};
  std::optional<Rate> rate = {};
  std::optional<std::uint64_t> max_queued_jobs = {};
  bool operator==(const UserCustomers&) const = default;
};

// A user who may log in; the name is also that of the tenant to which the user's batches belong. At
// least one of password_hash and certificate is set.
struct User {
  std::string password_hash;          // argon2id, encoded
  std::string certificate;            // common name of the client certificate that identifies the user
  std::uint32_t weight = 1;           // share compared with other users
  std::vector<std::string> handlers;  // handlers that the user may use; empty: all but `sleep`, `spin`, `fib`
  std::vector<CommandGroup> commands{CommandGroup::kSubmit, CommandGroup::kRead, CommandGroup::kControl};
  // Sums over the user's batches or connections. 0: only the limit of all users applies; `auto`:
  // half of that limit.
  Limit max_queued_jobs = auto_limit();
  Limit max_queued_bytes = auto_limit();
  Limit max_result_bytes = auto_limit();
  Limit max_record_bytes = auto_limit();
  Limit max_stored_bytes = auto_limit();
  Limit client_memory = auto_limit();
  std::uint64_t max_batches = 0;  // unfinished ones
  Limit max_clients = auto_limit();
  std::uint32_t slots = 0;  // jobs of the user at once; 0: no limit
  Rate rate{0};             // of starts; a count of 0: no limit
  UserCustomers customers;
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
// Whether each command that changes something has a line.
enum class AuditLines { kNo, kYes };

struct Log {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  AuditLines audit = AuditLines::kYes;
  bool operator==(const Log&) const = default;
};

// Whether the kernel may write the daemon's memory to a file after a crash, and other processes of
// the same user may read it.
enum class CoreDumps { kNo, kYes };

struct Process {
  std::string user;  // user to which the daemon changes after it has its ports; empty: no change
  CoreDumps core_dumps = CoreDumps::kNo;
  bool operator==(const Process&) const = default;
};

// Whether clients may submit commands to run, as payloads of the handler `exec`; and that handler.
struct Exec {
  bool is_on = false;
  Bytes max_output = kUsualOutput;  // of a job; more fails the job
  bool operator==(const Exec&) const = default;
};

struct Shutdown {
  Duration drain_timeout = std::chrono::seconds{30};  // then running jobs are stopped
  bool operator==(const Shutdown&) const = default;
};

enum class Insecure { kNo, kYes };

// Another daemon, whose jobs this daemon's handlers run, too.
struct Upstream {
  std::string url;                    // redis:// or rediss://; empty: none
  std::string name;                   // of this worker there; empty: the machine's
  std::vector<std::string> handlers;  // that serve it; empty: all
  std::string password_file;
  std::string
      ca_file;  // authorities that may have signed its certificate; empty: those that the machine trusts
  std::string cert_file;  // a certificate that identifies this worker, and its key
  std::string key_file;
  Bytes max_leased_bytes = gibibytes(1);  // results that the upstream has not acknowledged
  Insecure insecure = Insecure::kNo;      // whether redis:// may lead to another machine
  bool operator==(const Upstream&) const = default;
};

struct Config {
  Listen listen;
  Http http;
  Workers workers;
  Pool pool;
  Scheduling scheduling;
  Limits limits;
  Store store;
  Cluster cluster;
  std::map<std::string, Lane> lanes;        // by name; lanes.h has the lane that is always there
  std::map<std::string, Handler> handlers;  // by name; lanes.h has that of `exec`
  Exec exec;
  Customers customers;
  std::map<std::string, User> users;  // by name; empty: no authentication, clients on loopback only
  Upstream upstream;
  Metrics metrics;
  Log log;
  Process process;
  Shutdown shutdown;
  bool operator==(const Config&) const = default;
};

}  // namespace locksley::config
