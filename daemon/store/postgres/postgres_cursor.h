// Reads rows from PostgreSQL. Internal to daemon/store/postgres. One thread, that of the reading.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/connection_pool.h"
#include "daemon/store/postgres/row_place.h"

namespace locksley::daemon {

// A cursor on the server, in a transaction of its own, so that it shows the rows of the moment at
// which it was made. Rows come in pages, the first one with the first round trip; rows with names
// are read at once, and merged in. Of a range that is read once, the server is asked for the next
// page while this one is read.
class PostgresCursor final : public RowCursor {
 public:
  // `pool` outlives it.
  PostgresCursor(ConnectionPool& pool, const RowRange& range);
  ~PostgresCursor() override;
  PostgresCursor(const PostgresCursor&) = delete;
  PostgresCursor& operator=(const PostgresCursor&) = delete;

  bool is_valid() const override { return status_.has_value() && (has_row() || has_name()); }
  void next() override;
  std::string_view key() const override { return is_at_name_ ? std::string_view(names_[name_].first) : key_; }
  std::string_view value() const override;
  EngineDone status() const override { return status_; }

 private:
  bool has_row() const { return page_ != nullptr && row_ < PQntuples(page_.get()); }
  bool has_name() const { return name_ < names_.size(); }
  // The page ends with the table's rows: there is no other.
  bool is_last_page() const { return PQntuples(page_.get()) < page_size_; }

  void open(const RowRange& range);
  void open_in_batch(PlaceRange places, const RowRange& range);
  void open_over_batches(PlaceRange places, const RowRange& range);
  void seek(PlaceRange& places, std::string_view from_at_most);
  void read_names(const RowRange& range);
  // A page in two steps; nothing else uses the connection between them.
  void ask_for_page();
  void take_asked_page();
  void keep_page(PgExpected<Result> page, int size);
  // Chooses the smaller one of the row and the name.
  void settle();
  RowPlace place_in(const PGresult& result, int row) const;
  // Whether it went well; else the cursor ends with this error.
  template <class T>
  bool is_done(const PgExpected<T>& done);

  ConnectionPool& pool_;
  const Table table_;
  ConnectionPool::Taken connection_;  // null: none, or it is lost
  EngineDone status_;
  const bool is_read_once_;
  std::chrono::seconds patience_;  // with a page
  int asked_for_ = 0;              // rows of a page that has not been taken yet; 0: none was asked for
  Result page_;
  int page_size_ = 0;  // the rows that were asked for
  int row_ = 0;
  std::string key_;
  std::vector<std::pair<std::string, std::string>> names_;
  std::size_t name_ = 0;
  bool is_at_name_ = false;
};

}  // namespace locksley::daemon
