#include "daemon/metrics/metrics_page.h"

#include <prometheus/text_serializer.h>

#include "daemon/metrics/openmetrics.h"

namespace locksley::daemon {

Families MetricsPage::read() const {
  Families families;
  for (const Source& source : sources_) source(families);
  return families;
}

std::string MetricsPage::text() const { return prometheus::TextSerializer().Serialize(read()); }

std::string MetricsPage::openmetrics() const { return openmetrics_text(read()); }

}  // namespace locksley::daemon
