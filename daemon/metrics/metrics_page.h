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

// The sources of the page, in the order in which they were added. Each scrape makes the page anew.
//
// A member of HttpPort, as is the Router that serves the page; outlives the HTTP server. Add all
// sources before the server listens. One thread at a time, as Router promises. Sources read
// snapshots and must not block. An exception of a source reaches the caller.
class MetricsPage {
 public:
  // Adds series to the families until about `until`. Called again until it returns true: then all
  // series of the source are there. Destroyed between two calls if the daemon ends.
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
  // A source that may have very many series. Its readings of several scrapes may take turns.
  void add_long(Source source) { sources_.push_back(std::move(source)); }

  // One page, made a few series at a time. The MetricsPage outlives it.
  class Making {
   public:
    Making(const MetricsPage& page, MetricsFormat format) : sources_(page.sources_), writer_(format) {}
    // Goes on until about `until`. True: the page is whole.
    bool go_on(Instant until);
    std::string take() && { return std::move(writer_).take(); }

   private:
    // Writes the families of the source that was read. True: all are written.
    bool write_until(Instant until);

    const std::vector<Source>& sources_;
    PageWriter writer_;
    std::size_t source_ = 0;
    Reading reading_;       // of source number source_; empty: not begun, or done
    bool is_read_ = false;  // the source is read; its families are being written
    Families families_;
    std::size_t family_ = 0;  // number of the family that is written next
    std::size_t sample_ = 0;  // number of its sample that is written next
  };
  // The whole page at once.
  std::string whole(MetricsFormat format) const;

 private:
  std::vector<Source> sources_;
};

}  // namespace locksley::daemon
