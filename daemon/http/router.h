// Which page answers which path.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/request.h"

namespace locksley::daemon {

class HttpLogin;

struct HttpReply {
  HttpStatus status = HttpStatus::ok;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::string> fields = {};  // of the head, beside the usual ones: "Retry-After: 1"
  // Not empty: who has it may keep it and ask whether it still holds. Else nobody keeps the reply.
  std::string etag = {};
  // Set: this is no reply yet. It is called once, and gives the reply, from within or later, on the same
  // thread; or never, if the daemon ends: then `answer` is destroyed.
  using Answer = std::function<void(HttpReply)>;
  std::function<void(Answer)> later = {};
};

// Who gets a page, where `http.login` asks for a login at all.
enum class Access {
  everybody,  // without a login: what says nothing of what runs here
  users,  // whoever has logged in; what it shows of others is the page's to decide, by HttpRequest::caller
  operators,  // who may see what is everybody's: the token, or a user with the group `admin`
};

// Pages by path. Built by main() before the server listens, constant afterwards, outlives the server.
//
// A page is called on the thread that serves the HTTP side, one at a time, and must not block: it reads
// snapshots, or has its reply come later. What it throws becomes a 500 whose body says no more than that.
class Router {
 public:
  // `login` outlives it; null: nobody is asked who it is.
  explicit Router(HttpLogin* login = nullptr) : login_(login) {}

  using Page = std::function<HttpReply(const HttpRequest&)>;

  // `page` answers GET and HEAD of exactly `path`.
  void get(std::string path, Access access, Page page);
  // … of `prefix` and of everything below it; `prefix` ends in '/'. An exact path wins, then the longest
  // prefix.
  void get_below(std::string prefix, Access access, Page page);
  // `page` answers POST of everything below a prefix that get_below() knows, to the same callers.
  void post_below(std::string_view prefix, Page page);

  // 404 for a path that nobody answers, 405 for a method that the path does not take. 403 if the caller may
  // not see it.
  HttpReply route(const HttpRequest& request) const;
  // Whether a request to this path may have a body: if it is a POST, and some page answers that.
  bool takes_body(std::string_view method, std::string_view path) const;

  // Who has to say who asks, before a request for this path is routed; null: nobody.
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

  HttpLogin* const login_;
  std::vector<Entry> entries_;
};

}  // namespace locksley::daemon
