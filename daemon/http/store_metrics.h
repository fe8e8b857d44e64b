#pragma once

#include "daemon/http/metric_family.h"

namespace locksley::daemon {

class Store;

// The store's commits, size and errors. Any thread.
void read_store_metrics(const Store& store, Families& families);

}  // namespace locksley::daemon
