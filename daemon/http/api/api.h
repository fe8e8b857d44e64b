// The JSON API under /api/. API.md is its contract.
#pragma once

#include <asio/ip/address.hpp>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/http/api/pending_changes.h"
#include "daemon/http/pages/health.h"
#include "daemon/http/query.h"
#include "daemon/http/router.h"
#include "daemon/server/state/control.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

// Gives the answers of the wire's commands, by the same functions and with the same permissions.
//
// Owned by HttpPort. `state` and `health` outlive it, and it outlives every connection. The I/O
// thread only. Nothing blocks: a page that needs the disk replies later. Errors are replies.
class Api {
 public:
  Api(ServerState& state, const Health& health);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Adds the pages of the API.
  void add_to(Router& router);

 private:
  // The error is "CODE text", as on the wire.
  template <class T>
  using Result = std::expected<T, std::string>;

  // The caller as a user of the wire. Null: the caller may do nothing.
  UserRef user_of(const HttpCaller& caller) const LOCKSLEY_REQUIRES(kIoThread);
  // The same, if the request may be served and the user may send commands of this group. `command`
  // names the corresponding command of the wire, for the error.
  Result<UserRef> admitted(const HttpRequest& request, proto::CommandGroup group,
                           std::string_view command) const LOCKSLEY_REQUIRES(kIoThread);
  // What follows `root` in a path: a batch's id, or the name of a handler or a customer, and a part
  // of it or a change.
  struct Target {
    std::string id;
    std::string_view what;  // empty: the batch itself
  };
  static Result<Target> target_of(std::string_view path, std::string_view root);
  // A batch that the user may see; that of the query's tenant, if there is one.
  Result<BatchRecord*> find(const User& user, const std::string& id, const Query& query) const
      LOCKSLEY_REQUIRES(kIoThread);

  // If a look-up of the batch would wait for the store's machine: a reply that comes once the batch
  // is loaded. `serve` serves the request again. None: the caller finds the batch at once.
  using Serve = std::function<HttpReply(const HttpRequest& again)>;
  std::optional<HttpReply> after_load(const HttpRequest& request, const User& user, const std::string& id,
                                      const Query& query, const Serve& serve) const
      LOCKSLEY_REQUIRES(kIoThread);

  HttpReply get(const HttpRequest& request) LOCKSLEY_REQUIRES(kIoThread);
  HttpReply post(const HttpRequest& request) LOCKSLEY_REQUIRES(kIoThread);
  // api_overview.cc
  HttpReply session(const HttpRequest& request) const LOCKSLEY_REQUIRES(kIoThread);
  HttpReply overview(const HttpRequest& request) const LOCKSLEY_REQUIRES(kIoThread);
  // api_batches.cc
  HttpReply batches(const HttpRequest& request) const LOCKSLEY_REQUIRES(kIoThread);
  HttpReply batch(const HttpRequest& request, const std::string& id) const LOCKSLEY_REQUIRES(kIoThread);
  HttpReply failures(const HttpRequest& request, const std::string& id) const LOCKSLEY_REQUIRES(kIoThread);
  // api_jobs.cc
  // `what`: an index, or an index and "/log".
  HttpReply job(const HttpRequest& request, const std::string& id, std::string_view what)
      LOCKSLEY_REQUIRES(kIoThread);
  HttpReply running(const HttpRequest& request) LOCKSLEY_REQUIRES(kIoThread);
  // api_customers.cc
  HttpReply customers(const HttpRequest& request) const LOCKSLEY_REQUIRES(kIoThread);
  HttpReply customer(const HttpRequest& request, const std::string& name) const LOCKSLEY_REQUIRES(kIoThread);
  using Place = std::shared_ptr<PendingChanges::Place>;
  HttpReply change_customer(const HttpRequest& request, const Target& target, const Place& place)
      LOCKSLEY_REQUIRES(kIoThread);
  // api_control.cc
  // `place`, here and below: that of the change. `failures`: as in Intake::retry().
  HttpReply change(const HttpRequest& request, const Target& target, Control control, const Place& place,
                   const ReadFailures* failures = nullptr) LOCKSLEY_REQUIRES(kIoThread);
  // A reply that comes later: it waits for the end of another client's retry, or reads which jobs
  // failed, and then makes the change. None if neither is needed, or if the batch is not found.
  std::optional<HttpReply> retry_later(const HttpRequest& request, const User& user, const Target& target,
                                       const Place& place, const ReadFailures* failures)
      LOCKSLEY_REQUIRES(kIoThread);
  struct Changed {
    std::shared_ptr<BatchRecord> record;
    std::optional<std::uint64_t> jobs;  // of kCancel and kRetry
  };
  Result<Changed> make_change(const HttpRequest& request, const User& user, const Target& target,
                              Control control, const ReadFailures* failures) LOCKSLEY_REQUIRES(kIoThread);
  // A change that was made, and waits for the store.
  struct Made {
    asio::ip::address peer;
    UserRef user;
    Place place;
  };
  // A reply that goes out once the ticket is settled; with the error, if the store refused what was
  // accepted.
  HttpReply when_stored(const Made& change, Ticket ticket, const HttpReply& reply)
      LOCKSLEY_REQUIRES(kIoThread);
  // The same for a retry, which the record's ticket covers only after BatchRecord::is_requeueing().
  HttpReply when_retry_stored(const Made& change, const std::shared_ptr<BatchRecord>& record,
                              const HttpReply& reply) LOCKSLEY_REQUIRES(kIoThread);
  // api_handlers.cc
  HttpReply restart(const HttpRequest& request, const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);

  ServerState& state_;
  const Health& health_;
  PendingChanges pending_;
  const UserRef token_;  // the user whose permissions the token has
};

}  // namespace locksley::daemon
