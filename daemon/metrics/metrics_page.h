// /metrics: collects the metrics of all sources, and writes them in Prometheus' text format or as
// OpenMetrics.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/metrics/metric_family.h"
#include "daemon/metrics/page_writer.h"

namespace locksley::daemon {

// The sources of the page, which is made anew for each scrape, in the order in which they were
// added.
//
// Owned beside the Router that serves it; outlives the HTTP server. Add all sources before the
// server listens. One thread at a time, as Router promises. Sources read snapshots and must not
// block. An exception of a source reaches the caller.
class MetricsPage {
 public:
  // Adds what it reads to the families, until about the instant; called again until it returns
  // true: then all is there. Destroyed between two calls if the daemon ends.
  using Reading = std::move_only_function<bool(Families&, Instant until)>;
  using Source = std::function<Reading()>;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // A source with few series. Two sources must not write the same metric.
  void add(std::function<void(Families&)> read) {
    add_long([read = std::move(read)]() -> Reading {
      return [&read](Families& families, Instant) {
        read(families);
        return true;
      };
    });
  }
  // A source that may have very many. Its readings of several scrapes may take turns.
  void add_long(Source source) { sources_.push_back(std::move(source)); }

  // One page, made a few series at a time. The MetricsPage outlives it.
  class Making {
   public:
    Making(const MetricsPage& page, MetricsFormat format) : sources_(page.sources_), writer_(format) {}
    // Goes on until about `until`. True: the page is whole.
    bool go_on(Instant until);
    std::string take() && { return std::move(writer_).take(); }

   private:
    // Of the source that was read. True: all is written.
    bool write_until(Instant until);

    const std::vector<Source>& sources_;
    PageWriter writer_;
    std::size_t source_ = 0;
    Reading reading_;       // of this source; empty: it has not begun, or is read
    bool is_read_ = false;  // and is being written
    Families families_;
    std::size_t family_ = 0;  // that is written
    std::size_t sample_ = 0;  // of it
  };
  // The whole page at once.
  std::string whole(MetricsFormat format) const;

 private:
  std::vector<Source> sources_;
};

}  // namespace locksley::daemon
