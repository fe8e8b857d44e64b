// Length: one class, libpq's calls with deadlines and errors.
#include "daemon/store/postgres/connection.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace locksley::daemon {
namespace {

constexpr Oid kChar = 18;  // "char", one byte
constexpr Oid kBytea = 17;
constexpr Oid kInt8 = 20;
constexpr Oid kInt4 = 23;
constexpr Oid kText = 25;
constexpr Oid kCharArray = 1002;
constexpr Oid kByteaArray = 1001;
constexpr Oid kInt8Array = 1016;

template <class Number>
void append(std::string& bytes, Number number) {
  for (int shift = 8 * (static_cast<int>(sizeof number) - 1); shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(number >> shift));
  }
}

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

constexpr auto kUnreadable =
    "its URL cannot be read: write it as in postgresql://user@host:5432/database, with % and two digits for "
    "other letters";

constexpr auto kSilent = "the database does not reply";

// libpq's messages end with a line feed, and may have several lines.
std::string one_line(std::string_view message) {
  std::string line;
  for (const char c : message) {
    if (c != '\n') {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

constexpr auto kSettingsTime = std::chrono::seconds(3);  // as connect_timeout

// These override the settings of the role, the database and the server. Warnings are on because the
// server reports a cancelled wait for the standby by a warning only. In other isolation levels it
// is an error to update a row that another session has updated meanwhile, such as the row of this
// daemon. The client has deadlines of its own.
std::string session_settings(int version) {
  std::string sql =
      "set client_min_messages = warning; set default_transaction_isolation = 'read committed'; "
      "set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0";
  if (version >= 140000) sql += "; set idle_session_timeout = 0";
  if (version >= 170000) sql += "; set transaction_timeout = 0";
  return sql;
}

}  // namespace

Parameter Parameter::int4(std::int32_t value) {
  Parameter parameter{kInt4, {}};
  append(parameter.bytes, static_cast<std::uint32_t>(value));
  return parameter;
}
Parameter Parameter::int8(std::int64_t value) {
  Parameter parameter{kInt8, {}};
  append(parameter.bytes, static_cast<std::uint64_t>(value));
  return parameter;
}
Parameter Parameter::bytea(std::string_view value) { return {kBytea, std::string(value)}; }
Parameter Parameter::text(std::string_view value) { return {kText, std::string(value)}; }
Parameter Parameter::one_char(unsigned char value) {
  return {kChar, std::string(1, static_cast<char>(value))};
}

namespace {
// One dimension, no null, the type of the elements; then the number of elements, and 1, the first
// index.
constexpr std::size_t kCountAt = 12;
}  // namespace

ArrayParameter ArrayParameter::of_int8() { return ArrayParameter(kInt8, kInt8Array); }
ArrayParameter ArrayParameter::of_char() { return ArrayParameter(kChar, kCharArray); }
ArrayParameter ArrayParameter::of_bytea() { return ArrayParameter(kBytea, kByteaArray); }

ArrayParameter::ArrayParameter(Oid element, Oid array) : array_(array) {
  append(bytes_, std::uint32_t{1});
  append(bytes_, std::uint32_t{0});
  append(bytes_, static_cast<std::uint32_t>(element));
  append(bytes_, std::uint32_t{0});
  append(bytes_, std::uint32_t{1});
}

void ArrayParameter::add_size(std::size_t size) {
  append(bytes_, static_cast<std::uint32_t>(size));
  ++count_;
}
void ArrayParameter::add(std::int64_t value) {
  add_size(sizeof value);
  append(bytes_, static_cast<std::uint64_t>(value));
}
void ArrayParameter::add(unsigned char value) {
  add_size(1);
  bytes_.push_back(static_cast<char>(value));
}
void ArrayParameter::add(std::string_view value) {
  add_size(value.size());
  bytes_ += value;
}

Parameter ArrayParameter::take() {
  std::string count;
  append(count, count_);
  bytes_.replace(kCountAt, count.size(), count);
  return {array_, std::move(bytes_)};
}

std::string_view bytes_of(const PGresult& result, int row, int column) {
  return {PQgetvalue(&result, row, column), static_cast<std::size_t>(PQgetlength(&result, row, column))};
}
std::int64_t int8_of(const PGresult& result, int row, int column) {
  return static_cast<std::int64_t>(number_of(bytes_of(result, row, column)));
}
std::int32_t int4_of(const PGresult& result, int row, int column) {
  return static_cast<std::int32_t>(number_of(bytes_of(result, row, column)));
}
std::uint64_t rows_changed(const PGresult& result) {
  return std::strtoull(PQcmdTuples(const_cast<PGresult*>(&result)), nullptr, 10);
}

PgError error_of(const PGresult& result) {
  const char* state = PQresultErrorField(&result, PG_DIAG_SQLSTATE);
  PgError error{
      .error = {.kind = EngineError::Kind::kFailed, .what = one_line(PQresultErrorMessage(&result))},
      .state = state == nullptr ? "" : state};
  // After these the server closes the connection, and a COMMIT that was sent may have succeeded.
  const char* severity = PQresultErrorField(&result, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::strcmp(severity, "ERROR") != 0) error.state.clear();
  if (error.state == "53100") error.error.kind = EngineError::Kind::kFull;
  if (error.state.starts_with("XX00")) error.error.kind = EngineError::Kind::kDamaged;  // 1 and 2, and bugs
  return error;
}

PgError PgConnection::lost(std::string_view what) const {
  std::string words(what);
  const std::string said = one_line(PQerrorMessage(connection_.get()));
  if (!said.empty()) words += (words.empty() ? "" : ": ") + said;
  return {.error = {.kind = EngineError::Kind::kFailed, .what = std::move(words)}, .state = {}};
}

std::unique_ptr<PQconninfoOption, OptionsDeleter> parse_url(const std::string& url) {
  char* error = nullptr;
  std::unique_ptr<PQconninfoOption, OptionsDeleter> options(PQconninfoParse(url.c_str(), &error));
  PQfreemem(error);  // it quotes the URL, which may have a password
  return options;
}

PgExpected<std::unique_ptr<PgConnection>> PgConnection::open(const std::string& url, const std::string& name,
                                                             const ServerAddress* server) {
  if (parse_url(url) == nullptr) return std::unexpected(PgError::failed(kUnreadable));
  // What the URL says about these comes after and counts, but for the last ones.
  static constexpr std::array kKeywords{"connect_timeout",
                                        "tcp_user_timeout",
                                        "keepalives_idle",
                                        "keepalives_interval",
                                        "keepalives_count",
                                        "gssencmode",
                                        "dbname",
                                        "application_name",
                                        "target_session_attrs",
                                        "client_encoding",
                                        "host",
                                        "hostaddr",
                                        "port",
                                        static_cast<const char*>(nullptr)};
  // Seconds, and milliseconds: a server that is gone is noticed before its daemon's lease has ended
  // twice.
  const auto of_server = [&](std::string ServerAddress::* part) {
    return server == nullptr ? "" : (server->*part).c_str();  // an empty word counts as none
  };
  const std::array values{"3",
                          "8000",
                          "3",
                          "2",
                          "3",
                          "disable",
                          url.c_str(),
                          name.c_str(),
                          "read-write",
                          "UTF8",
                          of_server(&ServerAddress::host),
                          of_server(&ServerAddress::number),
                          of_server(&ServerAddress::port),
                          static_cast<const char*>(nullptr)};
  std::unique_ptr<PgConnection> connection(
      new PgConnection(PQconnectdbParams(kKeywords.data(), values.data(), 1)));
  PGconn* const raw = connection->connection_.get();
  if (raw == nullptr || PQstatus(raw) != CONNECTION_OK) return std::unexpected(connection->lost(""));
  connection->socket_ = ::fcntl(PQsocket(raw), F_DUPFD_CLOEXEC, 0);
  PQsetnonblocking(raw, 1);
  PQsetNoticeReceiver(raw, &PgConnection::note_warning, connection.get());
  if (const auto set = connection->run(session_settings(PQserverVersion(raw)), now() + kSettingsTime); !set)
    return std::unexpected(set.error());
  return connection;
}

PgConnection::~PgConnection() {
  if (socket_ >= 0) ::close(socket_);
}

void PgConnection::break_off() const { ::shutdown(socket_, SHUT_RDWR); }

bool PgConnection::is_closed() const {
  pollfd socket{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
  return ::poll(&socket, 1, 0) != 0;
}

void PgConnection::note_warning(void* self, const PGresult* notice) {
  const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::strcmp(severity, "WARNING") == 0) {
    static_cast<PgConnection*>(self)->warning_ = one_line(PQresultErrorMessage(notice));
  }
}

PgExpected<void> PgConnection::wait(short events, Instant deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
    if (left <= 0) return std::unexpected(lost(kSilent));
    pollfd socket{.fd = PQsocket(connection_.get()), .events = events, .revents = 0};
    const int ready = ::poll(&socket, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return std::unexpected(lost(std::strerror(errno)));
  }
}

PgExpected<void> PgConnection::flush(Instant deadline, std::chrono::milliseconds silence) {
  for (;;) {
    const int left = PQflush(connection_.get());
    if (left == 0) return {};
    if (left < 0) return std::unexpected(lost(""));
    // Reads meanwhile: the server may wait with its replies for us.
    if (const auto ready = wait(POLLIN | POLLOUT, deadline); !ready) return ready;
    if (PQconsumeInput(connection_.get()) == 0) return std::unexpected(lost(""));
    deadline = std::max(deadline, now() + silence);
  }
}

PgExpected<void> PgConnection::drain(std::chrono::milliseconds silence) {
  constexpr int kLittle = 256 << 10;  // guess: the slowest link has it away long before `silence` is over
  constexpr int kLookPeriod = 20;     // ms: the system does not tell when bytes leave
  Instant deadline = now() + silence;
  for (int before = std::numeric_limits<int>::max();;) {
    int left = 0;
    if (::ioctl(PQsocket(connection_.get()), SIOCOUTQ, &left) != 0 || left <= kLittle) return {};
    if (left < before) deadline = now() + silence;
    before = left;
    if (now() >= deadline) return std::unexpected(lost(kSilent));
    pollfd socket{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
    if (::poll(&socket, 1, kLookPeriod) > 0 && PQconsumeInput(connection_.get()) == 0) {
      return std::unexpected(lost(""));
    }
  }
}

PgExpected<void> PgConnection::await_result(Instant deadline) {
  while (PQisBusy(connection_.get()) != 0) {
    if (const auto ready = wait(POLLIN, deadline); !ready) return ready;
    if (PQconsumeInput(connection_.get()) == 0) return std::unexpected(lost(""));
  }
  return {};
}

PgExpected<Result> PgConnection::last_result(Instant deadline) {
  Result last;
  for (;;) {
    if (const auto ready = await_result(deadline); !ready) return std::unexpected(ready.error());
    Result result(PQgetResult(connection_.get()));
    if (result == nullptr) break;
    if (last == nullptr || PQresultStatus(last.get()) != PGRES_FATAL_ERROR) last = std::move(result);
  }
  if (PQstatus(connection_.get()) != CONNECTION_OK || last == nullptr) return std::unexpected(lost(""));
  if (PQresultStatus(last.get()) == PGRES_FATAL_ERROR) return std::unexpected(error_of(*last));
  return last;
}

PgExpected<Result> PgConnection::run(const std::string& sql, Instant deadline) {
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) return std::unexpected(lost(""));
  if (const auto sent = flush(deadline); !sent) return std::unexpected(sent.error());
  return last_result(deadline);
}

PgExpected<void> PgConnection::ask_copy(const std::string& sql) {
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) return std::unexpected(lost(""));
  return flush(now() + kSendTime);
}

PgExpected<void> PgConnection::begin_copy(ExecStatusType direction, Instant deadline) {
  if (const auto ready = await_result(deadline); !ready) return ready;
  const Result begun(PQgetResult(connection_.get()));
  if (begun != nullptr && PQresultStatus(begun.get()) == direction) return {};
  if (begun == nullptr) return std::unexpected(lost(""));
  for (Result rest = nullptr;;) {  // to the end of the command, so that the connection can be used
    if (const auto ready = await_result(deadline); !ready) return ready;
    rest.reset(PQgetResult(connection_.get()));
    if (rest == nullptr) return std::unexpected(error_of(*begun));
  }
}

PgExpected<CopiedRow> PgConnection::copy_row(Instant deadline) {
  for (;;) {
    char* row = nullptr;
    const int size = PQgetCopyData(connection_.get(), &row, 1);
    if (size > 0) return CopiedRow(row, static_cast<std::size_t>(size));
    if (size < 0) break;  // the end, or an error, which the result says
    if (const auto ready = wait(POLLIN, deadline); !ready) return std::unexpected(ready.error());
    if (PQconsumeInput(connection_.get()) == 0) return std::unexpected(lost(""));
  }
  if (const auto ended = last_result(deadline); !ended) return std::unexpected(ended.error());
  return CopiedRow();
}

PgExpected<std::string> PgConnection::copy_out(const std::string& sql, Instant deadline) {
  if (const auto asked = ask_copy(sql); !asked) return std::unexpected(asked.error());
  if (const auto begun = begin_copy_out(deadline); !begun) return std::unexpected(begun.error());
  std::string bytes;
  for (;;) {
    const auto row = copy_row(deadline);
    if (!row) return std::unexpected(row.error());
    if (row->empty()) return bytes;
    bytes += row->bytes();
  }
}

PgExpected<void> PgConnection::copy_in(const std::string& sql, std::string_view bytes, Instant deadline) {
  if (const auto asked = ask_copy(sql); !asked) return asked;
  if (const auto begun = begin_copy(PGRES_COPY_IN, deadline); !begun) return begun;
  // libpq takes all of it into its buffer.
  PGconn* const raw = connection_.get();
  if (PQputCopyData(raw, bytes.data(), static_cast<int>(bytes.size())) != 1 ||
      PQputCopyEnd(raw, nullptr) != 1)
    return std::unexpected(lost(""));
  if (const auto sent = flush(deadline); !sent) return sent;
  if (const auto ended = last_result(deadline); !ended) return std::unexpected(ended.error());
  return {};
}

namespace {

// As libpq takes them.
struct RawParameters {
  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> sizes;
  std::vector<int> formats;

  explicit RawParameters(const Parameters& parameters) : formats(parameters.size(), 1) {
    for (const Parameter& each : parameters) {
      types.push_back(each.type);
      values.push_back(each.bytes.data());
      sizes.push_back(static_cast<int>(each.bytes.size()));
    }
  }
  int count() const { return static_cast<int>(types.size()); }
};

int send_query(PGconn* connection, const char* sql, const Parameters& parameters) {
  const RawParameters raw(parameters);
  return PQsendQueryParams(connection, sql, raw.count(), raw.types.data(), raw.values.data(),
                           raw.sizes.data(), raw.formats.data(), 1);
}

}  // namespace

PgExpected<void> PgConnection::ask(const std::string& sql, const Parameters& parameters) {
  if (send_query(connection_.get(), sql.c_str(), parameters) == 0) return std::unexpected(lost(""));
  return flush(now() + kSendTime);
}

PgExpected<Result> PgConnection::run(const std::string& sql, const Parameters& parameters, Instant deadline) {
  if (const auto asked = ask(sql, parameters); !asked) return std::unexpected(asked.error());
  return answer(deadline);
}

PgExpected<Result> PgConnection::run_committed(const char* sql, const Parameters& parameters,
                                               Instant deadline) {
  const auto lost = [](const PgError& error) { return std::unexpected(error); };
  const Parameters none;
  for (const auto& [each, with] : {std::pair{"begin", &none}, std::pair{sql, &parameters}, {"end", &none}}) {
    if (const auto sent = send(nullptr, each, *with); !sent) return lost(sent.error());
  }
  if (const auto ended = end_pipeline(); !ended) return lost(ended.error());
  if (const auto begun = next(deadline); !begun) return lost(begun.error());
  auto result = next(deadline);
  if (result) {
    take_warning();
    if (const auto committed = next(deadline); !committed) result = lost(committed.error());
  }
  if (!result && result.error().is_lost()) return result;
  if (const auto finished = finish(deadline); !finished) return lost(finished.error());
  if (!result) {
    if (const auto undone = run("rollback", deadline); !undone) return lost(undone.error());
  }
  return result;
}

PgExpected<void> PgConnection::send(const char* name, const char* sql, const Parameters& parameters) {
  PGconn* const raw = connection_.get();
  if (PQpipelineStatus(raw) == PQ_PIPELINE_OFF && PQenterPipelineMode(raw) == 0) {
    return std::unexpected(lost(""));
  }
  if (name == nullptr) {
    if (send_query(raw, sql, parameters) == 0) return std::unexpected(lost(""));
  } else {
    const RawParameters values(parameters);
    if (std::ranges::find(prepared_, name) == prepared_.end()) {
      if (PQsendPrepare(raw, name, sql, values.count(), values.types.data()) == 0) {
        return std::unexpected(lost(""));
      }
      prepared_.push_back(name);
      sent_.push_back(Sent::kPreparation);
    }
    if (PQsendQueryPrepared(raw, name, values.count(), values.values.data(), values.sizes.data(),
                            values.formats.data(), 1) == 0) {
      return std::unexpected(lost(""));
    }
  }
  sent_.push_back(Sent::kStatement);
  // Large statements are sent while the next ones are built.
  if (PQflush(raw) < 0) return std::unexpected(lost(""));
  return {};
}

PgExpected<void> PgConnection::end_pipeline(std::chrono::milliseconds silence) {
  if (PQpipelineSync(connection_.get()) == 0) return std::unexpected(lost(""));
  if (const auto sent = flush(now() + silence, silence); !sent) return sent;
  return drain(silence);
}

PgExpected<Result> PgConnection::next(Instant deadline) {
  for (;;) {
    auto result = last_result(deadline);
    const Sent sent = sent_.front();
    sent_.pop_front();
    if (!result || sent == Sent::kStatement) return result;
  }
}

PgExpected<void> PgConnection::finish(Instant deadline) {
  // What was not run has a result, too.
  for (;;) {
    if (const auto ready = await_result(deadline); !ready) return ready;
    const Result result(PQgetResult(connection_.get()));
    if (PQstatus(connection_.get()) != CONNECTION_OK) return std::unexpected(lost(""));
    if (result != nullptr && PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) break;
  }
  sent_.clear();
  if (PQexitPipelineMode(connection_.get()) == 0) return std::unexpected(lost(""));
  return {};
}

}  // namespace locksley::daemon
