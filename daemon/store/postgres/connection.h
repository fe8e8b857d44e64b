// A connection to PostgreSQL: libpq with deadlines, and errors as the store's. Internal to
// daemon/store/postgres.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

struct ResultDeleter {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ResultDeleter>;

// Why a statement failed: as an error of the engine, and as PostgreSQL says it.
struct PgError {
  EngineError error;
  std::string state;  // SQLSTATE; empty: the connection is lost, or will be
  bool is_lost() const { return state.empty(); }
  // After which the connection is given up.
  static PgError failed(std::string what) { return {{EngineError::Kind::kFailed, std::move(what)}, {}}; }
};
template <class T>
using PgExpected = std::expected<T, PgError>;

// A parameter of a statement, in the binary form of its type. Its bytes outlive the sending.
struct Parameter {
  Oid type;
  std::string bytes;

  static Parameter int4(std::int32_t value);
  static Parameter int8(std::int64_t value);
  static Parameter bytea(std::string_view value);
  static Parameter text(std::string_view value);
  static Parameter one_char(unsigned char value);  // of the type "char"
};
using Parameters = std::vector<Parameter>;

// An array for unnest(): one column of the rows of a statement.
class ArrayParameter {
 public:
  static ArrayParameter of_int8();
  static ArrayParameter of_char();
  static ArrayParameter of_bytea();
  // Each of the type of the array.
  void add(std::int64_t value);
  void add(unsigned char value);
  void add(std::string_view value);
  std::size_t size_bytes() const { return bytes_.size(); }
  // Ends it.
  Parameter take();

 private:
  ArrayParameter(Oid element, Oid array);
  void add_size(std::size_t size);

  Oid array_;
  std::uint32_t count_ = 0;
  std::string bytes_;
};

// The values of a row that a statement returned in binary.
std::int64_t int8_of(const PGresult& result, int row, int column);
std::int32_t int4_of(const PGresult& result, int row, int column);
std::string_view bytes_of(const PGresult& result, int row, int column);
// The number of rows that an UPDATE or another command has changed.
std::uint64_t rows_changed(const PGresult& result);

// A row as COPY … TO STDOUT sends it.
class CopiedRow {
 public:
  CopiedRow() = default;
  CopiedRow(char* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  bool empty() const { return bytes_ == nullptr; }
  std::string_view bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(char* bytes) const { PQfreemem(bytes); }
  };
  std::unique_ptr<char, Free> bytes_;
  std::size_t size_ = 0;
};

// One of several servers that a URL names, in libpq's words; an empty field means: as the URL says.
struct ServerAddress {
  std::string host;
  std::string number;  // its IP address
  std::string port;

  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

struct OptionsDeleter {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
// What a URL says, in libpq's words; null if it cannot be read.
std::unique_ptr<PQconninfoOption, OptionsDeleter> parse_url(const std::string& url);

// A session with a server that can be written. After the loss of the connection, or a missed
// deadline, it cannot be used any more: its owner destroys it, and connects again. The server may
// still execute the statements that it received.
//
// One thread at a time, but for break_off(). Members with a deadline block on the network until
// then, for sending as for the reply. Those without one send a few lines, and block for kSendTime
// at most; but end_pipeline() blocks as long as bytes leave. open() has time-outs of its own: 3 s
// for each address, and 3 s more.
class PgConnection {
 public:
  static constexpr auto kSendTime = std::chrono::seconds(10);

  // `server`: this one of those that the URL names; null: the first that can be written.
  static PgExpected<std::unique_ptr<PgConnection>> open(const std::string& url, const std::string& name,
                                                        const ServerAddress* server = nullptr);
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;

  // Whether the server has closed it, as far as this machine knows, or has said something without
  // being asked. Never blocks. Needs: nothing is under way.
  bool is_closed() const;

  // Whatever waits for the server fails now, and later. Any thread.
  void break_off() const;

  // Of the server's log, for PrimaryFinder; 0: unknown.
  std::uint32_t timeline() const { return timeline_; }
  void set_timeline(std::uint32_t timeline) { timeline_ = timeline; }

  // One command, or several without parameters, separated by semicolons. Of several, the last
  // result. Text results.
  PgExpected<Result> run(const std::string& sql, Instant deadline);
  // One statement. Binary results.
  PgExpected<Result> run(const std::string& sql, const Parameters& parameters, Instant deadline);
  // The same in two steps, so that the server works meanwhile: nothing else may be called between
  // them.
  PgExpected<void> ask(const std::string& sql, const Parameters& parameters);
  PgExpected<Result> answer(Instant deadline) { return last_result(deadline); }
  // One statement as a transaction, in one round trip. Binary results. After it take_warning()
  // returns only warnings of the COMMIT. After an error of the server the transaction was rolled
  // back.
  PgExpected<Result> run_committed(const char* sql, const Parameters& parameters, Instant deadline);

  // Several statements in one round trip: send() each, end_pipeline(), next() for the result of
  // each in their order, and finish(). After an error of the server, the rest of the pipeline was
  // not run. A statement with a name is parsed once for each session: the name is a literal, and
  // stands for the same text always; null: it is parsed each time.
  PgExpected<void> send(const char* name, const char* sql, const Parameters& parameters);
  // `silence`: for how long nothing may leave this machine. So a link may be slow, and the pipeline
  // long; and once it returns, little of it is still on the way.
  PgExpected<void> end_pipeline(std::chrono::milliseconds silence = kSendTime);
  PgExpected<Result> next(Instant deadline);
  PgExpected<void> finish(Instant deadline);

  // COPY … TO STDOUT, row by row: ask_copy(), after which the server works; begin_copy_out(); and
  // copy_row() until it is empty, after which the connection can be used for something else. A row
  // is as the server sends it.
  PgExpected<void> ask_copy(const std::string& sql);
  PgExpected<void> begin_copy_out(Instant deadline) { return begin_copy(PGRES_COPY_OUT, deadline); }
  PgExpected<CopiedRow> copy_row(Instant deadline);
  // The same at once: all rows.
  PgExpected<std::string> copy_out(const std::string& sql, Instant deadline);
  // COPY … FROM STDIN: sends `bytes`, at most some megabytes.
  PgExpected<void> copy_in(const std::string& sql, std::string_view bytes, Instant deadline);

  // The last warning of the server since the last call; empty: there was none. Only one of a COMMIT
  // says that the wait for the standby was cancelled; a statement before it may be warned of
  // anything, such as transaction ids that run out.
  std::string take_warning() { return std::exchange(warning_, {}); }

 private:
  struct Closer {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };

  explicit PgConnection(PGconn* connection) : connection_(connection) {}
  static void note_warning(void* self, const PGresult* notice);
  // `silence`: after bytes have left, the deadline is so far away at least.
  PgExpected<void> flush(Instant deadline, std::chrono::milliseconds silence = {});
  // The same for the bytes in the system's socket buffer.
  PgExpected<void> drain(std::chrono::milliseconds silence);
  PgExpected<void> wait(short events, Instant deadline);
  PgExpected<void> await_result(Instant deadline);
  PgExpected<Result> last_result(Instant deadline);
  // Waits until the COPY that was asked for begins. The error leaves the connection as run() does.
  PgExpected<void> begin_copy(ExecStatusType direction, Instant deadline);
  PgError lost(std::string_view what) const;

  const std::unique_ptr<PGconn, Closer> connection_;
  // Of the same connection, for break_off(): libpq closes its own when it likes. -1: not connected.
  int socket_ = -1;
  std::vector<const char*> prepared_;  // names
  // What was sent in this pipeline and has no result yet, in that order.
  enum class Sent : std::uint8_t { kPreparation, kStatement };
  std::deque<Sent> sent_;
  std::string warning_;
  std::uint32_t timeline_ = 0;
};

PgError error_of(const PGresult& result);

// A SQLSTATE: lock_timeout has passed.
inline constexpr std::string_view kLockNotAvailable = "55P03";

}  // namespace locksley::daemon
