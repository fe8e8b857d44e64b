// The JSON under /api/; its contract is API.md.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "daemon/http/health.h"
#include "daemon/http/query.h"
#include "daemon/http/router.h"
#include "daemon/server/control.h"
#include "daemon/server/server.h"

namespace locksley::daemon {

// Answers for what the wire's commands answer: by the same functions, with the same permissions.
//
// Owned by main(); server and health outlive it, and it every connection. I/O thread. Nothing blocks: what
// needs the disk comes later.
class Api {
 public:
  Api(Server& server, const Health& health);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Adds its pages.
  void add_to(Router& router);

 private:
  // The error is "CODE text", as the wire says it.
  template <class T>
  using Result = std::expected<T, std::string>;

  // Who asks, as a user of the wire. Null: nobody who may do anything.
  UserRef user_of(const HttpCaller& caller) const;
  // The same, if the request may be answered at all, and the user may send commands of this group; `command`
  // is what the wire calls the like.
  Result<UserRef> admitted(const HttpRequest& request, proto::CommandGroup group,
                           std::string_view command) const;
  // Those that are a path below "/api/batches/": the batch's id, and what of it.
  struct Target {
    std::string id;
    std::string_view what;  // empty: the batch itself
  };
  static Result<Target> target_of(std::string_view path);
  // The batch that the user may see, of the query's tenant if it names one.
  Result<BatchRecord*> find(const User& user, const std::string& id, const Query& query) const;

  HttpReply get(const HttpRequest& request);
  HttpReply post(const HttpRequest& request);
  // api_overview.cc
  HttpReply session(const HttpRequest& request) const;
  HttpReply overview(const HttpRequest& request) const;
  // api_batches.cc
  HttpReply batches(const HttpRequest& request) const;
  HttpReply batch(const HttpRequest& request, const std::string& id) const;
  HttpReply failures(const HttpRequest& request, const std::string& id) const;
  // api_control.cc
  HttpReply change(const HttpRequest& request, const Target& target, Control control);

  Server& server_;
  const Health& health_;
  const UserRef token_;  // as whom the token sees what it sees
};

}  // namespace locksley::daemon
