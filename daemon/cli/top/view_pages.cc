// The page with the details of one batch, and the page of help.
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/top/view_parts.h"

namespace locksley::cli {
namespace {

class PageLines {
 public:
  PageLines(std::size_t columns, Charset charset) : columns_(columns), charset_(charset) {}

  void pair(std::string_view name, std::string_view value, TopStyle style = TopStyle::kPlain) {
    FrameLine line(columns_, charset_);
    line.cell(name, 11, Side::kLeft, TopStyle::kDim).cell(value, line.room(), Side::kLeft, style);
    lines_.push_back(std::move(line).take());
  }
  void text(std::string_view text, TopStyle style = TopStyle::kPlain) {
    FrameLine line(columns_, charset_);
    line.text(text, style);
    lines_.push_back(std::move(line).take());
  }
  Charset charset() const { return charset_; }
  std::size_t columns() const { return columns_; }
  TopLines take() && { return std::move(lines_); }

 private:
  const std::size_t columns_;
  const Charset charset_;
  TopLines lines_;
};

std::string reason_of(const client::Explanation& why) {
  if (why.is_paused && why.reason != "paused") return why.reason + ", paused";
  if (why.ahead == 0) return why.reason;
  return why.reason + ", " + with_commas(why.ahead) + " ahead";
}

const TopBatch* batch_of(const TopFigures& figures, const std::string& key) {
  for (const TopBatch& batch : figures.batches) {
    if (batch.name.key == key) return &batch;
  }
  return nullptr;
}

void put_failures(PageLines& page, const TopDetail& detail) {
  const std::uint64_t failed = detail.status->failed;
  if (failed == 0) return;
  page.text("");
  const bool has_all = detail.failures.size() >= failed;
  page.text(has_all ? "failures" : "failures, of which " + with_commas(detail.failures.size()) + " are shown",
            TopStyle::kHead);
  for (const TopFailure& failure : detail.failures) {
    page.text(with_commas(failure.index) + "  " + failure.status + "  " + failure.text, TopStyle::kBad);
  }
  if (has_all || detail.failures.size() >= TopDetail::kMostFailures) return;
  page.text(detail.saw_all_rows
                ? "the other results were not kept"
                : "looking for more: " + with_commas(detail.rows_looked_at) + " results so far",
            TopStyle::kDim);
}

}  // namespace

TopLines detail_lines(const TopFigures& figures, const TopScreen& screen, std::size_t columns,
                      Charset charset) {
  PageLines page(columns, charset);
  if (!figures.detail || figures.detail->key != screen.selected) {
    page.text("asking the daemon", TopStyle::kDim);
    return std::move(page).take();
  }
  const TopDetail& detail = *figures.detail;
  if (!detail.error.empty()) page.text(detail.error, TopStyle::kBad);
  if (!detail.status) return std::move(page).take();
  const client::BatchStatus& status = *detail.status;
  page.pair("batch", status.id, TopStyle::kStrong);
  if (!status.name.empty()) page.pair("name", status.name, TopStyle::kStrong);
  page.pair("tenant", status.tenant);
  page.pair("handler", status.handler);
  page.pair("state", status.state + (detail.explanation && detail.explanation->is_paused ? ", paused" : ""));
  page.pair("weight", std::to_string(status.weight));
  const double done = status.jobs == 0
                          ? (status.is_over() ? 1.0 : 0.0)
                          : static_cast<double>(status.ended()) / static_cast<double>(status.jobs);
  const std::size_t wide = columns > 40 ? std::min<std::size_t>(columns - 24, 50) : 10;
  page.pair("progress", bar(done, wide, charset) + " " + percent(done),
            status.failed > 0 ? TopStyle::kBad : TopStyle::kGood);
  page.pair("jobs", with_commas(status.jobs) + ", " + with_commas(status.queued) + " queued, " +
                        with_commas(status.running) + " running");
  page.pair("ended", with_commas(status.ok) + " ok, " + with_commas(status.failed) + " failed, " +
                         with_commas(status.cancelled) + " cancelled, " + with_commas(status.retried) +
                         " retried");
  const TopBatch* const batch = batch_of(figures, detail.key);
  if (!status.is_over() && batch != nullptr) {
    page.pair("rate", short_number(batch->jobs_per_second) + " jobs/s");
    page.pair("time left", batch->left ? short_duration(*batch->left) : "unknown");
  }
  if (!status.is_over() && detail.explanation) {
    page.pair("why", reason_of(*detail.explanation));
    page.pair("share due", percent(detail.explanation->share) + " of its lane");
    page.pair("received", percent(detail.explanation->received) + " lately");
  }
  page.pair("submitted", local_time(status.submitted_at));
  page.pair("started", local_time(status.started_at));
  page.pair("finished", local_time(status.finished_at));
  put_failures(page, detail);
  return std::move(page).take();
}

TopLines help_lines(const TopFigures& figures, std::size_t columns, Charset charset) {
  PageLines page(columns, charset);
  const TopServer& server = figures.server;
  page.pair("up, down", "another batch; also k and j");
  page.pair("Enter", "the details of a batch, with its failures");
  page.pair("Esc", "back");
  page.pair(
      "s, S", "sort by another column: " + [] {
        std::string all;
        for (const std::string_view name : kTopOrderNames)
          all += (all.empty() ? "" : ", ") + std::string(name);
        return all;
      }());
  page.pair("/", "only batches with this in name, id, handler, tenant or state");
  if (server.may("control")) {
    page.pair("p", "pause a batch, or resume it");
    page.pair("w", "another weight");
    page.pair("c", "cancel it; asks first");
    page.pair("r", "run its failed jobs again");
  } else {
    page.text("You may look: " + server.user + " has no permission to change batches.", TopStyle::kWarn);
  }
  page.pair("q", "quit");
  page.text("");
  page.text("Workers: busy share, jobs in the queue, steals. Many are shown by a cell each.");
  page.text(
      "Machines: remote workers, the slots in use, leases held, the round trip, jobs ended, leases lost.");
  page.text("Tenants: weight, the share of worker time each is DUE, and the share it GOT while it had work.");
  page.text("locksley explain says what a batch waits for.");
  return std::move(page).take();
}

}  // namespace locksley::cli
