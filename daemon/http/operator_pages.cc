#include "daemon/http/operator_pages.h"

#include "daemon/http/openmetrics.h"

namespace locksley::daemon {
namespace {

HttpReply unavailable(std::string reason) {
  return {.status = HttpStatus::unavailable, .body = std::move(reason) + "\n"};
}

HttpReply ready_page(const Health& health) {
  switch (health.phase()) {
    case Health::Phase::starting:
      return unavailable("starting");
    case Health::Phase::draining:
      return unavailable("draining");
    case Health::Phase::serving:
      break;
  }
  return {.body = "ready\n"};
}

}  // namespace

void add_operator_pages(Router& router, const MetricsPage& metrics, Health& health) {
  router.get("/metrics", Access::operators, [&metrics](const HttpRequest& request) {
    const bool is_openmetrics = wants_openmetrics(request.accept);
    return HttpReply{.content_type = is_openmetrics ? kOpenMetricsContentType : MetricsPage::kContentType,
                     .body = is_openmetrics ? metrics.openmetrics() : metrics.text(),
                     .fields = {"Vary: Accept"}};
  });
  router.get("/healthz", Access::everybody, [&health](const HttpRequest&) {
    if (auto trouble = health.trouble()) return unavailable(std::move(*trouble));
    return HttpReply{.body = "ok\n"};
  });
  router.get("/readyz", Access::everybody, [&health](const HttpRequest&) { return ready_page(health); });
}

}  // namespace locksley::daemon
