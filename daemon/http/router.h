// The pages, by path.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/http/request.h"

namespace locksley::daemon {

class HttpHosts;
class HttpLogin;

class HttpAnswer;

// What a page replies: at once, or later. A value.
struct HttpReply {
  HttpStatus status = HttpStatus::kOk;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::string> fields = {};  // additional fields of the head: "Retry-After: 1"
  // Not empty: a client may cache the reply, and revalidates it. Empty: the reply must not be
  // cached.
  std::string etag = {};
  // If set, this object is not the reply. The function is called once, and passes the reply to its
  // argument, at once or later on the same thread. If the daemon ends before that, the argument is
  // destroyed without a call.
  using Answer = HttpAnswer;
  std::function<void(Answer)> later = {};
};

// Passes on a reply that comes later. Copies are the same answer: the first call counts, the others
// have no effect. The I/O thread.
class HttpAnswer {
 public:
  using Give = std::move_only_function<void(HttpReply)>;

  HttpAnswer() = default;  // for a variable; must not be called
  // Implicit, as that of a std::function.
  template <class Function>
    requires(!std::is_same_v<std::remove_cvref_t<Function>, HttpAnswer>)
  HttpAnswer(Function give) : state_(std::make_shared<State>(Give(std::move(give)))) {}

  void operator()(HttpReply reply) const;
  // Expires with the first call: then no client waits for the reply any more. It has come, or it is
  // too late for it.
  std::weak_ptr<const void> waiting() const { return state_->waiting; }

 private:
  struct State {
    explicit State(Give its) : give(std::move(its)) {}
    Give give;  // empty: it has been called
    std::shared_ptr<const void> waiting = std::make_shared<char>();
  };
  std::shared_ptr<State> state_;
};

// Who may access a page, if `http.login` demands a login.
enum class Access {
  // No login: pages that reveal nothing about the jobs. They are served beyond the limit of
  // connections, too: see HttpLimits::reserved_connections.
  kEverybody,
  kUsers,      // every user, and the token; the page decides by HttpRequest::caller what it shows
  kOperators,  // callers that see everything: the token, or a user with the group `admin`
};

// The table of pages. Owned by HttpPort, or by Standby::Desk, which fill it before the server
// listens; outlives the server. Constant afterwards: any thread.
//
// Pages are called on the I/O thread, one at a time. A page must not block: it reads
// snapshots, or replies later. An exception of a page becomes a 500 without details.
class Router {
 public:
  // Both outlive it. `login`: null: no login. `hosts`: null: every Host is served.
  explicit Router(HttpLogin* login = nullptr, const HttpHosts* hosts = nullptr)
      : login_(login), hosts_(hosts) {}

  using Page = std::function<HttpReply(const HttpRequest&)>;

  // `page` answers GET and HEAD of exactly `path`.
  void get(std::string path, Access access, Page page);
  // `page` answers GET and HEAD of `prefix` and of all paths below it; `prefix` ends in '/'. An
  // exact path takes precedence, then the longest prefix.
  void get_below(std::string prefix, Access access, Page page);
  // `page` answers POST of all paths below `prefix`, which must have been passed to get_below(),
  // for the same callers.
  void post_below(std::string_view prefix, Page page);

  // Before each page with Access::kUsers `refusal` is called, on the same thread; if it returns a
  // reason, a sentence, that is the reply, as a 503. Set once, before the server listens.
  void refuse_pages_while(std::function<std::optional<std::string>()> refusal) {
    refusal_ = std::move(refusal);
  }

  // Its reply; none: the page is served now. For a page that replies later, once it has its reply.
  std::optional<HttpReply> refuse_now(const HttpRequest& request) const;

  // The reply of the page; or 404 for an unknown path, 405 for a method that the path does not
  // take, 403 if the caller may not access it, or if no login is configured and the request's Host
  // is none of ours. Pages with Access::kEverybody are served under every Host.
  HttpReply route(const HttpRequest& request) const;
  // Whether a request to this path may have a body: if it is a POST that a page answers.
  bool takes_body(std::string_view method, std::string_view path) const;

  // Whether the path has a page with Access::kEverybody.
  bool is_for_everybody(std::string_view path) const;

  // The login that must identify the caller before a request for this path is routed; null: none.
  HttpLogin* login_for(std::string_view path) const;

 private:
  struct Entry {
    std::string path;
    bool below;
    Access access;
    Page page;
    Page post = nullptr;  // none: only GET and HEAD
  };
  const Entry* find(std::string_view path) const;
  bool is_foreign_host(const Entry& entry, const HttpRequest& request) const;

  HttpLogin* const login_;
  const HttpHosts* const hosts_;
  std::vector<Entry> entries_;
  std::function<std::optional<std::string>()> refusal_;  // none: no page is refused
};

}  // namespace locksley::daemon
