#include "tests/support/postgres_disk.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace locksley::testing {
namespace {

// The trigger runs at the COMMIT of each group that is to be synced, but not of a beat. Sequences
// are not part of transactions.
constexpr auto kFaults = R"(
create sequence if not exists {0}.syncs;
create sequence if not exists {0}.fault minvalue 0 start 0;
create or replace function {0}.at_commit() returns trigger language plpgsql as $$
declare
  fault bigint;
begin
  if current_setting('synchronous_commit') = 'off' then
    return null;
  end if;
  perform nextval('{0}.syncs');
  perform pg_advisory_xact_lock_shared({1});
  select last_value into fault from {0}.fault;
  if fault = 1 then
    perform setval('{0}.fault', 0);
  end if;
  if fault <> 0 then
    raise exception 'injected';
  end if;
  return null;
end $$;
create constraint trigger at_commit after update on {0}.locksley_node deferrable initially deferred
  for each row when (old.alive and old.committed is distinct from new.committed) execute function {0}.at_commit();
)";

constexpr auto kPatience = std::chrono::seconds(30);

int next_number() {
  static int last = 0;
  return ++last;
}

}  // namespace

TestConnection::TestConnection(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection_));
  PQsetNoticeProcessor(connection_, [](void*, const char*) {}, nullptr);
}
TestConnection::~TestConnection() { PQfinish(connection_); }

std::vector<std::vector<std::string>> TestConnection::run(const std::string& sql) {
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection_, sql.c_str()), &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
    throw std::runtime_error(PQerrorMessage(connection_));
  std::vector<std::vector<std::string>> rows(static_cast<std::size_t>(PQntuples(result.get())));
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      rows[static_cast<std::size_t>(row)].emplace_back(PQgetvalue(result.get(), row, column));
    }
  }
  return rows;
}

PostgresDisk::PostgresDisk() : number_(next_number()), name_(fmt::format("disk{}", number_)) {
  postgres_server().start();
  TestConnection(postgres_server().url()).run("create schema " + name_);
}

PostgresDisk::~PostgresDisk() {
  holds_.reset();
  postgres_server().start();
  TestConnection(postgres_server().url()).run("drop schema " + name_ + " cascade");
}

daemon::PostgresOptions PostgresDisk::options() const {
  return {.url = url(),
          .replication = config::Replication::kNone,
          .name = "test",
          .wire = "",
          .lease = std::chrono::milliseconds(600),
          .reply_time = kPatience,
          .patience = std::chrono::milliseconds(300)};
}

daemon::OpenEngine PostgresDisk::engine() {
  return [this](const daemon::EngineOptions& options) {
    auto opened = daemon::postgres_engine(this->options())(options);
    if (opened) install_faults();
    return opened;
  };
}

void PostgresDisk::install_faults() const {
  TestConnection connection(postgres_server().url());
  const std::string there =
      connection.value(fmt::format("select to_regclass('{}.fault') is not null", name_));
  if (there == "f") connection.run(fmt::format(kFaults, name_, number_));
}

std::vector<RawRow> PostgresDisk::rows() const {
  TestConnection connection(url());
  std::vector<RawRow> rows;
  for (const auto& row :
       connection.run("select batch, kind from locksley_index order by kind, batch, part")) {
    rows.push_back({.family = "index", .sequence = std::stoull(row[0]), .kind = row[1].front(), .first = 0});
  }
  for (const std::string& row :
       {std::string("select substr(name, 1, 8) from locksley_name where place = '0' and length(name) > 1")}) {
    for (const auto& name : connection.run(row)) {
      rows.push_back({.family = "index", .sequence = 0, .kind = name[0].empty() ? '\0' : 'u', .first = 0});
    }
  }
  for (const auto& [family, table] : {std::pair{"payloads", "payload"}, std::pair{"results", "result"}}) {
    for (const auto& row :
         connection.run(fmt::format("select batch, (part::numeric + 9223372036854775808)::text from "
                                    "locksley_{} order by batch, part",
                                    table))) {
      rows.push_back(
          {.family = family, .sequence = std::stoull(row[0]), .kind = '\0', .first = std::stoull(row[1])});
    }
  }
  return rows;
}

void PostgresDisk::hold_syncs() {
  holds_ = std::make_unique<TestConnection>(postgres_server().url());
  holds_->run(fmt::format("select pg_advisory_lock({})", number_));
}

void PostgresDisk::release() { holds_.reset(); }

bool PostgresDisk::await_held() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  TestConnection connection(postgres_server().url());
  const std::string waits = fmt::format(
      "select count(*) from pg_locks where locktype = 'advisory' and objid = {} and not granted", number_);
  while (connection.value(waits) == "0") {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::uint64_t PostgresDisk::syncs() const {
  return std::stoull(
      TestConnection(postgres_server().url())
          .value(fmt::format("select case when is_called then last_value else 0 end from {}.syncs", name_)));
}

void PostgresDisk::set_fault(int fault) {
  TestConnection(postgres_server().url()).run(fmt::format("select setval('{}.fault', {})", name_, fault));
}

void PostgresDisk::cut_power() {
  holds_.reset();
  postgres_server().kill();
}

void PostgresDisk::lose_power() { postgres_server().start(); }

std::unique_ptr<StoreDisk> make_store_disk(const std::filesystem::path&, std::uint64_t) {
  return std::make_unique<PostgresDisk>();
}

}  // namespace locksley::testing
