// The metrics of the store.
#pragma once

#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

class Store;

// Adds the store's commits, size and errors. Any thread. Does not block.
void read_store_metrics(const Store& store, Families& families);

}  // namespace locksley::daemon
