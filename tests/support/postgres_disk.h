// The disk of the engine on PostgreSQL: a schema of a server of the test program's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/store/postgres/postgres_engine.h"
#include "tests/support/postgres_server.h"
#include "tests/support/store_disk.h"

struct pg_conn;

namespace locksley::testing {

// A connection of the test's own, beside the engine's. A statement that fails throws. One thread at
// a time.
class TestConnection {
 public:
  explicit TestConnection(const std::string& url);
  ~TestConnection();
  TestConnection(const TestConnection&) = delete;
  TestConnection& operator=(const TestConnection&) = delete;

  // The rows, as text.
  std::vector<std::vector<std::string>> run(const std::string& sql);
  std::string value(const std::string& sql) { return run(sql).at(0).at(0); }

 private:
  pg_conn* const connection_;
};

// Faults are injected by the server: a trigger of the test's runs as a group commits, and waits, or
// raises an error.
class PostgresDisk final : public StoreDisk {
 public:
  PostgresDisk();
  ~PostgresDisk() override;

  // Short times, so that a test need not wait for a lease.
  daemon::PostgresOptions options() const;
  const std::string& name() const { return name_; }
  // Installs the faults once the tables are there; engine() does it.
  void install_faults() const;
  std::string url() const { return postgres_server().url("-csearch_path=" + name_); }

  daemon::OpenEngine engine() override;
  std::string place(const std::filesystem::path&) const override { return daemon::postgres_place(url()); }
  std::string key_of_place() const override { return "store.url"; }
  std::vector<RawRow> rows() const override;
  void hold_syncs() override;
  void release() override;
  bool await_held() override;
  std::uint64_t syncs() const override;
  void fail_next_sync() override { set_fault(1); }
  void fail_syncs() override { set_fault(2); }
  void heal() override { set_fault(0); }
  // The server's WAL writer wakes every 10 s, and writes pending commits.
  bool loses_all_unsynced() const override { return false; }
  void cut_power() override;
  void lose_power() override;

 private:
  void set_fault(int fault);

  const int number_;
  const std::string name_;                 // of the schema
  std::unique_ptr<TestConnection> holds_;  // while syncs are held, its session has the lock
};

}  // namespace locksley::testing
