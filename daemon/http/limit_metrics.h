// The limits of the configuration, so that rules can compare what there is with what there may be.
#pragma once

#include "config/config.h"
#include "daemon/http/metric_family.h"

namespace locksley::daemon {

// Those of `config` that a metric fills up; each is named after its key, and 0 where that means no limit. Any
// thread that may read `config`; does not block.
void read_limit_metrics(const config::Config& config, Families& families);

}  // namespace locksley::daemon
