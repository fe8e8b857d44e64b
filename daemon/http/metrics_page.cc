#include "daemon/http/metrics_page.h"

#include <prometheus/text_serializer.h>

namespace locksley::daemon {

std::string MetricsPage::text() const {
  Families families;
  for (const Source& source : sources_) source(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace locksley::daemon
