#include "daemon/http/pages/operator_pages.h"

#include <utility>

#include "daemon/metrics/openmetrics.h"

namespace locksley::daemon {
namespace {

HttpReply unavailable(std::string reason) {
  return {.status = HttpStatus::kUnavailable, .body = std::move(reason) + "\n"};
}

HttpReply ready_page(const Health& health) {
  if (auto reason = health.unready()) return unavailable(std::move(*reason));
  return {.body = "ready\n"};
}

}  // namespace

void add_metrics_page(Router& router, const MetricsPage& metrics) {
  router.get("/metrics", Access::kOperators, [&metrics](const HttpRequest& request) {
    const bool is_openmetrics = wants_openmetrics(request.accept);
    return HttpReply{.content_type = is_openmetrics ? kOpenMetricsContentType : MetricsPage::kContentType,
                     .body = is_openmetrics ? metrics.openmetrics() : metrics.text(),
                     .fields = {"Vary: Accept"}};
  });
}

void add_operator_pages(Router& router, const MetricsPage& metrics, Health& health) {
  add_metrics_page(router, metrics);
  router.get("/healthz", Access::kEverybody, [&health](const HttpRequest&) {
    if (auto trouble = health.trouble()) return unavailable(std::move(*trouble));
    return HttpReply{.body = "ok\n"};
  });
  router.get("/readyz", Access::kEverybody, [&health](const HttpRequest&) { return ready_page(health); });
}

}  // namespace locksley::daemon
