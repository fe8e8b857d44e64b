// The table of batches: its columns are those that there is room for.
#include <cmath>

#include "daemon/cli/text/number_text.h"
#include "daemon/cli/top/view_parts.h"

namespace locksley::cli {
namespace {

// Cells of each column; 0: it is left out.
struct Columns {
  std::size_t name = 0, tenant = 0, handler = 0, weight = 0, bar = 0, jobs = 0, failed = 0, rate = 0,
              left = 0, share = 0, state = 0;
};

constexpr std::size_t kPercent = 4;

Columns columns_for(const TopFigures& figures, std::size_t columns) {
  Columns wide{.state = columns < 60 ? 9U : 16U};
  wide.left = 7;
  wide.rate = columns < 30 ? 0 : 5;
  if (columns >= 60) {
    wide.bar = columns < 120 ? 8 : 16;
    wide.failed = 4;
  }
  if (columns >= 76) {
    wide.weight = 3;
    wide.handler = columns < 120 ? 8 : 12;
  }
  if (columns >= 100) {
    wide.jobs = 6;
    if (figures.tenants.size() > 1) wide.tenant = 10;
  }
  if (columns >= 140) wide.share = 9;
  std::size_t used = kPercent + 1;
  for (const std::size_t cells : {wide.tenant, wide.handler, wide.weight, wide.bar, wide.jobs, wide.failed,
                                  wide.rate, wide.left, wide.share, wide.state}) {
    used += cells == 0 ? 0 : cells + 1;
  }
  wide.name = columns > used + 4 ? columns - used : 4;
  // Names of more than 40 cells are rare; long reasons are not.
  if (wide.name > 40) {
    wide.state += std::min<std::size_t>(wide.name - 40, 8);
    wide.name = 40;
  }
  return wide;
}

std::string percent_so_far(double fraction) {
  // Rounded down: 100% means that the batch is over.
  return std::to_string(static_cast<int>(std::floor(fraction * 100))) + "%";
}

TopStyle style_of(const TopBatch& batch, const std::string& state) {
  if (batch.status.failed > 0) return TopStyle::kBad;
  if (batch.status.is_over()) return TopStyle::kDim;
  if (state == "running") return TopStyle::kGood;
  return state == "waiting-its-turn" || state == "open" ? TopStyle::kPlain : TopStyle::kWarn;
}

}  // namespace

TopLine batch_heading(const TopFigures& figures, const TopScreen& screen, std::size_t columns,
                      Charset charset) {
  const Columns wide = columns_for(figures, columns);
  FrameLine line(columns, charset);
  line.cell(screen.filter.empty() ? "BATCH" : "BATCH /" + screen.filter, wide.name);
  if (wide.tenant) line.cell("TENANT", wide.tenant);
  if (wide.handler) line.cell("HANDLER", wide.handler);
  if (wide.weight) line.cell("WT", wide.weight, Side::kRight);
  if (wide.bar) line.cell("PROGRESS", wide.bar);
  line.cell("", kPercent);
  if (wide.jobs) line.cell("JOBS", wide.jobs, Side::kRight);
  if (wide.failed) line.cell("FAIL", wide.failed, Side::kRight);
  if (wide.rate) line.cell("/S", wide.rate, Side::kRight);
  line.cell("LEFT", wide.left, Side::kRight);
  if (wide.share) line.cell("DUE  GOT", wide.share, Side::kRight);
  std::string state = "STATE";
  if (screen.order != TopOrder::kNewest) state = "by " + std::string(to_string(screen.order));
  line.cell(state, wide.state);
  return std::move(line.paint(TopStyle::kHead)).take();
}

TopLine batch_line(const TopFigures& figures, const TopBatch& batch, std::size_t columns, Charset charset) {
  const Columns wide = columns_for(figures, columns);
  const client::BatchStatus& status = batch.status;
  const std::string state = state_of(batch);
  const TopStyle style = style_of(batch, state);
  const bool is_over = status.is_over();
  const TopStyle plain = is_over ? TopStyle::kDim : TopStyle::kPlain;
  FrameLine line(columns, charset);
  line.cell(batch.title(), wide.name, Side::kLeft, plain);
  if (wide.tenant) line.cell(status.tenant, wide.tenant, Side::kLeft, plain);
  if (wide.handler) line.cell(status.handler, wide.handler, Side::kLeft, plain);
  if (wide.weight) line.cell(std::to_string(status.weight), wide.weight, Side::kRight, plain);
  // How many jobs an open batch will have is unknown.
  if (wide.bar) {
    line.cell(status.state == "open" ? "" : bar(batch.progress, wide.bar, charset), wide.bar, Side::kLeft,
              style);
  }
  line.cell(status.state == "open" ? "" : percent_so_far(batch.progress), kPercent, Side::kRight, plain);
  if (wide.jobs) line.cell(short_number(static_cast<double>(status.jobs)), wide.jobs, Side::kRight, plain);
  if (wide.failed) {
    line.cell(status.failed == 0 ? "" : short_number(static_cast<double>(status.failed)), wide.failed,
              Side::kRight, TopStyle::kBad);
  }
  if (wide.rate) line.cell(is_over ? "" : short_number(batch.jobs_per_second), wide.rate, Side::kRight);
  line.cell(batch.left ? short_duration(*batch.left) : "", wide.left, Side::kRight);
  if (wide.share) {
    const auto& why = batch.explanation;
    line.cell(why && !is_over ? fitted(percent_so_far(why->share), 4, charset, Side::kRight) + " " +
                                    fitted(percent_so_far(why->received), 4, charset, Side::kRight)
                              : "",
              wide.share, Side::kRight);
  }
  line.cell(state, wide.state, Side::kLeft, style);
  return std::move(line).take();
}

}  // namespace locksley::cli
