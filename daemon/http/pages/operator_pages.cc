#include "daemon/http/pages/operator_pages.h"

#include <memory>
#include <optional>
#include <utility>

#include "daemon/http/in_parts.h"
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

void add_metrics_page(Router& router, const MetricsPage& metrics, HttpTurns turns) {
  router.get("/metrics", Access::kOperators, [&metrics, turns](const HttpRequest& request) {
    const bool is_openmetrics = wants_openmetrics(request.accept);
    auto making = std::make_shared<MetricsPage::Making>(
        metrics, is_openmetrics ? MetricsFormat::kOpenMetrics : MetricsFormat::kText);
    const auto go_on = [making, is_openmetrics](Instant until) -> std::optional<HttpReply> {
      if (!making->go_on(until)) return std::nullopt;
      return HttpReply{.content_type = is_openmetrics ? kOpenMetricsContentType : MetricsPage::kContentType,
                       .body = std::move(*making).take(),
                       .fields = {"Vary: Accept"}};
    };
    return reply_in_parts(turns.slices, turns.line_of(request.caller), go_on);
  });
}

void add_operator_pages(Router& router, const MetricsPage& metrics, HttpTurns turns, Health& health) {
  add_metrics_page(router, metrics, std::move(turns));
  router.get("/healthz", Access::kEverybody, [&health](const HttpRequest&) {
    if (auto trouble = health.trouble()) return unavailable(std::move(*trouble));
    return HttpReply{.body = "ok\n"};
  });
  router.get("/readyz", Access::kEverybody, [&health](const HttpRequest&) { return ready_page(health); });
}

}  // namespace locksley::daemon
