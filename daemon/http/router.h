// Which page answers which path.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/request.h"

namespace locksley::daemon {

struct HttpReply {
  HttpStatus status = HttpStatus::ok;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
};

// Pages by path. Built by main() before the server listens, constant afterwards, outlives the server.
//
// A page is called on the thread that serves the HTTP side, one at a time, and must not block: it reads
// snapshots. What it throws becomes a 500 whose body says no more than that.
class Router {
 public:
  using Page = std::function<HttpReply(const HttpRequest&)>;

  // `page` answers GET and HEAD of exactly `path`.
  void get(std::string path, Page page);
  // … of `prefix` and of everything below it; `prefix` ends in '/'. An exact path wins, then the longest
  // prefix.
  void get_below(std::string prefix, Page page);

  // 404 for a path that nobody answers, 405 for a method other than GET and HEAD on one that somebody does.
  HttpReply route(const HttpRequest& request) const;

 private:
  struct Entry {
    std::string path;
    bool below;
    Page page;
  };
  const Entry* find(std::string_view path) const;

  std::vector<Entry> entries_;
};

}  // namespace locksley::daemon
