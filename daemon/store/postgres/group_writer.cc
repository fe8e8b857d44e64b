#include "daemon/store/postgres/group_writer.h"

#include <array>
#include <string_view>
#include <utility>

namespace locksley::daemon {
namespace {

// A statement with more of either is slower for each row: measured with rows of 8,000 bytes.
constexpr std::size_t kMostRows = 512;
constexpr std::size_t kMostBytes = 512U << 10;

// The condition of each statement: the fence before it holds the row until the transaction ends.
// The upper bits of the beat are the epoch.
#define LOCKSLEY_MAY_WRITE(node, epoch) "node = " node " and alive and beat >> 40 = " epoch
#define LOCKSLEY_FENCED(node, epoch) \
  " exists (select 1 from locksley_node where " LOCKSLEY_MAY_WRITE(node, epoch) ")"

struct Statement {
  const char* name;
  const char* sql;
};

constexpr Statement kBegin{"begin", "begin"};
constexpr Statement kCommit{"commit", "commit"};
constexpr Statement kAsynchronous{"asynchronous", "set local synchronous_commit = off"};
constexpr Statement kFence{"fence",
                           "update locksley_node set committed = $3, beat = beat + 1 "
                           "where " LOCKSLEY_MAY_WRITE("$1", "$2")};
constexpr Statement kBeat{"beat",
                          "update locksley_node set beat = beat + 1 where " LOCKSLEY_MAY_WRITE("$1", "$2")};
constexpr auto kBeginEpoch =
    "update locksley_node set beat = ((beat >> 40) + 1) << 40 where node = $1 and alive "
    "returning beat >> 40, committed, has_database_privilege(current_database(), 'TEMP')";

// $1 batch, $2 part, $3 value, $4 node, $5 epoch, $6 kind
constexpr Statement kPutIndex{
    "put_index",
    "insert into locksley_index select (r.batch & 63)::int, r.batch, r.kind, r.part, r.value "
    "from unnest($1::bigint[], $6::\"char\"[], $2::bigint[], $3::bytea[]) r(batch, kind, part, value) "
    "where" LOCKSLEY_FENCED(
        "$4", "$5") " on conflict (shard, batch, kind, part) do update set value = excluded.value"};
// $6 generation
#define LOCKSLEY_PUT(table)                                                                         \
  "insert into " table                                                                              \
  " (shard, batch, part, value, generation) select (r.batch & 63)::int, r.batch, r.part, r.value, " \
  "r.generation::smallint from unnest($1::bigint[], $2::bigint[], $3::bytea[], $6::bigint[]) "      \
  "r(batch, part, value, generation) where" LOCKSLEY_FENCED(                                        \
      "$4", "$5") " on conflict (shard, batch, part, generation) do update set value = excluded.value"
constexpr Statement kPutPayload{"put_payload", LOCKSLEY_PUT("locksley_payload")};
constexpr Statement kPutResult{"put_result", LOCKSLEY_PUT("locksley_result")};

// $1 batch, $2 first part, $3 last part, $4 node, $5 epoch, $6 kind
constexpr Statement kEraseIndex{
    "erase_index",
    "delete from locksley_index t using unnest($1::bigint[], $6::\"char\"[], $2::bigint[], $3::bigint[]) "
    "r(batch, kind, low, high) where t.shard = (r.batch & 63)::int and t.batch = r.batch and t.kind = r.kind "
    "and t.part >= r.low and t.part <= r.high and" LOCKSLEY_FENCED("$4", "$5")};
#define LOCKSLEY_ERASE(table)                                                                           \
  "delete from " table                                                                                  \
  " t using unnest($1::bigint[], $2::bigint[], $3::bigint[]) r(batch, low, high) "                      \
  "where t.shard = (r.batch & 63)::int and t.batch = r.batch and t.part >= r.low and t.part <= r.high " \
  "and" LOCKSLEY_FENCED("$4", "$5")
constexpr Statement kErasePayload{"erase_payload", LOCKSLEY_ERASE("locksley_payload")};
constexpr Statement kEraseResult{"erase_result", LOCKSLEY_ERASE("locksley_result")};

// Ranges of several batches: rare.
constexpr Statement kEraseIndexRange{
    "erase_index_range",
    "delete from locksley_index where (kind, batch, part) >= ($1::\"char\", $2, $3) and "
    "(kind, batch, part) < ($4::\"char\", $5, $6) and" LOCKSLEY_FENCED("$7", "$8")};
#define LOCKSLEY_ERASE_RANGE(table) \
  "delete from " table              \
  " where (batch, part) >= ($1, $2) and (batch, part) < ($3, $4) and" LOCKSLEY_FENCED("$5", "$6")
constexpr Statement kErasePayloadRange{"erase_payload_range", LOCKSLEY_ERASE_RANGE("locksley_payload")};
constexpr Statement kEraseResultRange{"erase_result_range", LOCKSLEY_ERASE_RANGE("locksley_result")};

constexpr Statement kBeginGeneration{
    "begin_generation",
    "insert into locksley_generation select $1::\"char\", $2, $3::smallint where" LOCKSLEY_FENCED(
        "$4", "$5") " on conflict (place, first) do update set generation = excluded.generation"};
constexpr Statement kPutList{
    "put_list",
    "insert into locksley_change (node, number, half, batches) select $1, $2, $3::smallint, $4::bigint[] "
    "where" LOCKSLEY_FENCED("$5", "$6")};
constexpr Statement kPutName{
    "put_name", "insert into locksley_name select $1::\"char\", $2, $3 where" LOCKSLEY_FENCED(
                    "$4", "$5") " on conflict (place, name) do update set value = excluded.value"};
constexpr Statement kEraseName{
    "erase_name",
    "delete from locksley_name where place = $1::\"char\" and name = $2 and" LOCKSLEY_FENCED("$3", "$4")};
constexpr Statement kEraseNames{"erase_names",
                                "delete from locksley_name where place = $1::\"char\" and name >= $2 and "
                                "(name < $3 or $3 = '') and" LOCKSLEY_FENCED("$4", "$5")};

// Values that are sent before the fence. The table is dropped with the transaction: one that stays
// keeps the server from freezing old transaction numbers, since it vacuums no temporary table.
constexpr Statement kBeginAhead{
    "begin_ahead",
    "create temporary table if not exists locksley_ahead (place \"char\", kind \"char\", "
    "like locksley_payload including storage) on commit drop"};
// $1 place, $2 kind, $3 batch, $4 part, $5 value, $6 generation
constexpr Statement kPutAhead{
    "put_ahead",
    "insert into pg_temp.locksley_ahead (place, kind, shard, batch, part, value, generation) "
    "select $1::\"char\", $2::\"char\", ($3::bigint & 63)::int, $3, $4::bigint, $5::bytea, "
    "$6::int::smallint"};
// Concatenated with nothing, a value is copied as it was sent.
constexpr Statement kTakeIndex{
    "take_index",
    "insert into locksley_index select a.shard, a.batch, a.kind, a.part, a.value || ''::bytea "
    "from pg_temp.locksley_ahead a where a.place = '0' and" LOCKSLEY_FENCED(
        "$1", "$2") " on conflict (shard, batch, kind, part) do update set value = excluded.value"};
#define LOCKSLEY_TAKE(table, place)                                                                  \
  "insert into " table                                                                               \
  " (shard, batch, part, value, generation) select a.shard, a.batch, a.part, a.value || ''::bytea, " \
  "a.generation from pg_temp.locksley_ahead a where a.place = '" place "' and" LOCKSLEY_FENCED(      \
      "$1", "$2") " on conflict (shard, batch, part, generation) do update set value = excluded.value"
constexpr Statement kTakePayload{"take_payload", LOCKSLEY_TAKE("locksley_payload", "1")};
constexpr Statement kTakeResult{"take_result", LOCKSLEY_TAKE("locksley_result", "2")};

struct OfTable {
  Statement put;
  Statement erase;
  Statement erase_range;
  Statement take;
};
constexpr std::array<OfTable, kTables> kStatements{
    {{kPutIndex, kEraseIndex, kEraseIndexRange, kTakeIndex},
     {kPutPayload, kErasePayload, kErasePayloadRange, kTakePayload},
     {kPutResult, kEraseResult, kEraseResultRange, kTakeResult}}};

unsigned char place_of(Table table) { return static_cast<unsigned char>('0' + static_cast<int>(table)); }
std::int16_t generation_of(Table table, const RowPlace& at, const Generations& generations) {
  return table == Table::kIndex ? std::int16_t{0} : generations.number_of(table, at.batch);
}

// The last parameters of a statement, but for those of Columns.
void add_writer(Parameters& parameters, const Writer& writer) {
  parameters.push_back(Parameter::int4(writer.node));
  parameters.push_back(Parameter::int8(writer.epoch));
}

// The rows that the next statement changes.
class Columns {
 public:
  bool empty() const { return rows_ == 0; }
  bool is_full() const { return rows_ >= kMostRows || values_.size_bytes() >= kMostBytes; }
  // `generation`: of rows that are not of the index.
  void put(const RowPlace& place, std::string_view value, std::int16_t generation) {
    begin(place);
    parts_.add(place.part);
    values_.add(value);
    generations_.add(std::int64_t{generation});
  }
  void erase(const RowPlace& place, std::int64_t last_part) {
    begin(place);
    parts_.add(place.part);
    lasts_.add(last_part);
  }
  Parameters take_put(Table table, const Writer& writer) {
    Parameter last = table == Table::kIndex ? kinds_.take() : generations_.take();
    return take(writer, values_.take(), std::move(last));
  }
  Parameters take_erase(Table table, const Writer& writer) {
    std::optional<Parameter> last;
    if (table == Table::kIndex) last = kinds_.take();
    return take(writer, lasts_.take(), std::move(last));
  }

 private:
  void begin(const RowPlace& place) {
    ++rows_;
    batches_.add(place.batch);
    kinds_.add(place.kind);
  }
  Parameters take(const Writer& writer, Parameter third, std::optional<Parameter> last) {
    Parameters parameters{batches_.take(), parts_.take(), std::move(third)};
    add_writer(parameters, writer);
    if (last) parameters.push_back(*std::move(last));
    *this = Columns();
    return parameters;
  }

  std::size_t rows_ = 0;
  ArrayParameter batches_ = ArrayParameter::of_int8();
  ArrayParameter kinds_ = ArrayParameter::of_char();
  ArrayParameter parts_ = ArrayParameter::of_int8();
  ArrayParameter lasts_ = ArrayParameter::of_int8();
  ArrayParameter values_ = ArrayParameter::of_bytea();
  ArrayParameter generations_ = ArrayParameter::of_int8();
};

// Sends the statements of a group, and counts them. After an error it does nothing more.
class Sender {
 public:
  Sender(PgConnection& connection, const Writer& writer) : connection_(connection), writer_(writer) {}

  void send(const Statement& statement, const Parameters& parameters = {}) {
    if (!sent_) return;
    sent_ = connection_.send(statement.name, statement.sql, parameters);
    ++count_;
  }
  // With the writer as its last parameters.
  void send_fenced(const Statement& statement, Parameters parameters) {
    add_writer(parameters, writer_);
    send(statement, parameters);
  }
  void send(const Generations::Span& begun) {
    send_fenced(kBeginGeneration, {Parameter::one_char(place_of(begun.table)), Parameter::int8(begun.first),
                                   Parameter::int4(begun.number)});
  }
  void send(std::int64_t number, const ChangeList& list) {
    ArrayParameter batches = ArrayParameter::of_int8();
    for (const std::int64_t batch : list.batches) batches.add(batch);
    send_fenced(kPutList, {Parameter::int4(writer_.node), Parameter::int8(number), Parameter::int4(list.half),
                           batches.take()});
  }
  // Before the fence.
  void send_ahead(Table table, const PostgresGroup::OfTable& changes, const Generations& generations) {
    for (const auto& [at, value] : changes.rows) {
      if (!goes_ahead(value)) continue;
      if (!std::exchange(has_ahead_, true)) send(kBeginAhead);
      send(kPutAhead, {Parameter::one_char(place_of(table)), Parameter::one_char(at.kind),
                       Parameter::int8(at.batch), Parameter::int8(at.part), Parameter::bytea(*value),
                       Parameter::int4(generation_of(table, at, generations))});
    }
  }
  void send(Table table, const PostgresGroup::OfTable& changes, const Generations& generations) {
    const OfTable& statements = kStatements[static_cast<std::size_t>(table)];
    const unsigned char place = place_of(table);
    Columns columns;
    const auto flush_erase = [&] {
      if (!columns.empty()) send(statements.erase, columns.take_erase(table, writer_));
    };
    for (const PlaceRange& range : changes.ranges) {
      if (!range.is_of_one_batch()) {
        send_range(table, statements.erase_range, range);
      } else {
        columns.erase(range.low, range.last_part());
        if (columns.is_full()) flush_erase();
      }
    }
    for (const auto& names : changes.name_ranges) {
      send_fenced(kEraseNames,
                  {Parameter::one_char(place), Parameter::bytea(names.low), Parameter::bytea(names.high)});
    }
    for (const auto& [at, value] : changes.rows) {
      if (!value) columns.erase(at, at.part);
      if (columns.is_full()) flush_erase();
    }
    flush_erase();
    for (const auto& [at, value] : changes.rows) {
      if (value && !goes_ahead(value)) columns.put(at, *value, generation_of(table, at, generations));
      if (columns.is_full()) send(statements.put, columns.take_put(table, writer_));
    }
    if (!columns.empty()) send(statements.put, columns.take_put(table, writer_));
    if (has_ahead_) send_fenced(statements.take, {});
    for (const auto& [name, value] : changes.names) {
      if (value) {
        send_fenced(kPutName, {Parameter::one_char(place), Parameter::bytea(name), Parameter::bytea(*value)});
      } else {
        send_fenced(kEraseName, {Parameter::one_char(place), Parameter::bytea(name)});
      }
    }
  }
  void end(std::chrono::milliseconds silence) {
    if (sent_) sent_ = connection_.end_pipeline(silence);
  }
  const PgExpected<void>& sent() const { return sent_; }
  std::size_t count() const { return count_; }

 private:
  bool goes_ahead(const PostgresGroup::Value& value) const {
    return value && value->size() > kMostUnderFence && writer_.may_send_ahead;
  }
  void send_range(Table table, const Statement& statement, const PlaceRange& range) {
    Parameters parameters;
    // No row has the greatest number.
    const RowPlace high =
        range.high.value_or(RowPlace{.kind = 0xFF, .batch = RowPlace::kMost, .part = RowPlace::kMost});
    for (const RowPlace& bound : {range.low, high}) {
      if (table == Table::kIndex) parameters.push_back(Parameter::one_char(bound.kind));
      parameters.push_back(Parameter::int8(bound.batch));
      parameters.push_back(Parameter::int8(bound.part));
    }
    send_fenced(statement, std::move(parameters));
  }

  PgConnection& connection_;
  const Writer writer_;
  PgExpected<void> sent_;
  std::size_t count_ = 0;
  bool has_ahead_ = false;  // values were sent before the fence
};

}  // namespace

// Rows are found by their keys, whatever the server thinks of an empty table that is about to
// become large. A transaction of a daemon that is paused ends by itself. A group that waits for a
// table that another session has locked gives up its own row soon, so that there are beats between
// two attempts.
const char* const kWriterSettings =
    "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan "
    "= off; "
    "set plan_cache_mode = force_generic_plan; set jit = off; set lock_timeout = '1s'; "
    "set idle_in_transaction_session_timeout = '5s'";

Written write_group(PgConnection& connection, const Writer& writer, std::optional<std::int64_t> number,
                    const Changes& changes, Safety safety, std::chrono::milliseconds silence) {
  using Outcome = Written::Outcome;
  // A connection may be lost with the COMMIT in it, sent by libpq or by the system, of which libpq
  // says nothing.
  const auto failed = [](const PgError& error) -> Written {
    if (error.is_lost()) return {.outcome = Outcome::kUnknown, .error = error.error};
    return {.outcome = error.state == kLockNotAvailable ? Outcome::kLocked : Outcome::kRefused,
            .error = error.error};
  };
  Sender sender(connection, writer);
  sender.send(kBegin);
  if (safety == Safety::kAhead) sender.send(kAsynchronous);
  constexpr std::array kAllTables{Table::kIndex, Table::kPayloads, Table::kResults};
  for (const Table table : kAllTables) sender.send_ahead(table, changes.group.of(table), changes.generations);
  const std::size_t fence = sender.count();
  if (number) {
    sender.send(kFence,
                {Parameter::int4(writer.node), Parameter::int8(writer.epoch), Parameter::int8(*number)});
  } else {
    sender.send_fenced(kBeat, {});
  }
  for (const Generations::Span& begun : changes.begun) sender.send(begun);
  if (changes.list) sender.send(number.value(), *changes.list);
  for (const Table table : kAllTables) sender.send(table, changes.group.of(table), changes.generations);
  sender.send(kCommit);
  sender.end(silence);
  if (!sender.sent()) return failed(sender.sent().error());
  const Instant deadline = now() + silence;
  bool is_alive = true;
  std::string warning;
  for (std::size_t i = 0; i < sender.count(); ++i) {
    // The COMMIT is last, so later warnings are about it.
    if (i + 1 == sender.count()) warning = connection.take_warning();
    const auto result = connection.next(deadline);
    if (!result) return failed(result.error());
    if (i == fence) is_alive = rows_changed(**result) == 1;
  }
  if (const auto finished = connection.finish(deadline); !finished) return failed(finished.error());
  if (!is_alive)
    return {.outcome = Outcome::kFenced, .error = {EngineError::Kind::kFenced, std::string(kFencedWords)}};
  if (std::string of_commit = connection.take_warning(); !of_commit.empty()) {
    return {.outcome = Outcome::kUnknown, .error = {EngineError::Kind::kFailed, std::move(of_commit)}};
  }
  return {.warning = std::move(warning)};
}

Written write_beat(PgConnection& connection, const Writer& writer, std::chrono::milliseconds silence) {
  const PostgresGroup no_group;
  const Generations no_generations;
  const std::vector<Generations::Span> none_begun;
  return write_group(connection, writer, std::nullopt, {no_group, no_generations, none_begun, std::nullopt},
                     Safety::kSafe, silence);
}

PgExpected<Epoch> begin_epoch(PgConnection& connection, std::int32_t node, Instant deadline) {
  const auto begun = connection.run_committed(kBeginEpoch, {Parameter::int4(node)}, deadline);
  if (!begun) return std::unexpected(begun.error());
  if (PQntuples(begun->get()) != 1) {
    return std::unexpected(PgError{{EngineError::Kind::kFenced, std::string(kFencedWords)}, ""});
  }
  // The wait for the synchronous standby was cancelled: whether it has the row is unknown.
  if (const std::string warning = connection.take_warning(); !warning.empty())
    return std::unexpected(PgError::failed(warning));
  return Epoch{.number = int8_of(**begun, 0, 0),
               .committed = int8_of(**begun, 0, 1),
               .may_send_ahead = bytes_of(**begun, 0, 2).front() != 0};
}

}  // namespace locksley::daemon
