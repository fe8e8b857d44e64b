// Which parts a screen has, and how many lines each may take.
#include "daemon/cli/top/view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "daemon/cli/text/number_text.h"
#include "daemon/cli/top/view_parts.h"

namespace locksley::cli {

std::string short_bytes(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  const int decimals = unit == 0 || bytes >= 99.5 ? 0 : 1;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, bytes);
  return text.data() + std::string(kUnits[unit]);
}

namespace {

std::string up_since(std::uint64_t seconds) {
  if (seconds >= 2 * 86400) return std::to_string(seconds / 86400) + "d";
  std::array<char, 32> text{};
  std::snprintf(
      text.data(), text.size(), "%llu:%02llu:%02llu", static_cast<unsigned long long>(seconds / 3600),
      static_cast<unsigned long long>(seconds / 60 % 60), static_cast<unsigned long long>(seconds % 60));
  return text.data();
}

// The style of a value that has a limit: a warning from nine tenths of it on.
TopStyle style_near(std::uint64_t value, std::uint64_t limit) {
  return limit > 0 && static_cast<double>(value) >= 0.9 * static_cast<double>(limit) ? TopStyle::kBad
                                                                                     : TopStyle::kPlain;
}

TopLine head_line(const TopFigures& figures, const TopScreen& screen, std::size_t columns, Charset charset) {
  const TopServer& server = figures.server;
  FrameLine line(columns, charset);
  line.text("locksley", TopStyle::kStrong).text(" " + server.version + "  " + screen.address);
  if (!screen.lost.empty()) {
    line.text("  not connected", TopStyle::kBad);
  } else {
    line.text("  ").text(server.is_draining ? "draining" : "ready",
                         server.is_draining ? TopStyle::kWarn : TopStyle::kGood);
    line.text("  up " + up_since(server.uptime_s));
  }
  if (!server.user.empty()) line.text("  user " + server.user, TopStyle::kDim);
  line.text("  " + short_number(static_cast<double>(server.clients)) +
                (server.clients == 1 ? " connection" : " connections"),
            TopStyle::kDim);
  return std::move(line).take();
}

TopLine queue_line(const TopFigures& figures, const TopScreen& screen, std::size_t columns, Charset charset) {
  const TopServer& server = figures.server;
  FrameLine line(columns, charset);
  if (!screen.lost.empty()) {
    line.text(screen.lost + "; trying again", TopStyle::kBad);
    return std::move(line).take();
  }
  if (!figures.refusal.empty()) line.text(figures.refusal + "  ", TopStyle::kWarn);
  const auto number = [](std::uint64_t value) { return short_number(static_cast<double>(value)); };
  line.text(number(server.active_batches) + (server.active_batches == 1 ? " batch  " : " batches  "));
  line.text(number(server.queued_jobs), style_near(server.queued_jobs, server.max_queued_jobs));
  if (server.max_queued_jobs > 0) line.text("/" + number(server.max_queued_jobs), TopStyle::kDim);
  line.text(" jobs queued  ");
  line.text(short_bytes(static_cast<double>(server.queued_bytes)),
            style_near(server.queued_bytes, server.max_queued_bytes));
  if (server.max_queued_bytes > 0)
    line.text("/" + short_bytes(static_cast<double>(server.max_queued_bytes)), TopStyle::kDim);
  if (figures.jobs_per_second) line.text("  " + short_number(*figures.jobs_per_second) + " jobs/s");
  line.text("  store");
  if (server.store != "ready" || !server.store_bytes)
    line.text(" " + server.store, server.store == "failing" ? TopStyle::kBad : TopStyle::kPlain);
  if (server.store_bytes) line.text(" " + short_bytes(static_cast<double>(*server.store_bytes)));
  if (server.store_errors.value_or(0) > 0)
    line.text(" " + number(*server.store_errors) + " errors", TopStyle::kWarn);
  if (server.retained_batches) {
    const std::string over = "  " + number(*server.retained_batches) + " over";
    if (over.size() <= line.room()) line.text(over, TopStyle::kDim);
  }
  if (!figures.has_all_active) line.text("; the newest are shown", TopStyle::kDim);
  return std::move(line).take();
}

TopLine worker_heading(const TopFigures& figures, std::size_t columns, Charset charset) {
  std::uint64_t queued = 0;
  for (const TopWorker& worker : figures.workers) queued += worker.queue_depth;
  FrameLine line(columns, charset);
  const std::size_t count = figures.workers.size();
  line.text("pool: " + std::to_string(count) + (count == 1 ? " thread" : " threads"), TopStyle::kStrong);
  line.text("  " + std::to_string(std::lround(figures.busy * 100)) + "% busy  " +
            short_number(static_cast<double>(queued)) + " in their queues  " +
            short_number(figures.steals_per_second) + " steals/s");
  return std::move(line).take();
}

TopLine last_line(const TopFigures& figures, const TopScreen& screen, TopFrame& frame, std::size_t columns,
                  Charset charset) {
  FrameLine line(columns, charset);
  if (!screen.prompt.empty()) {
    // If the typed text is too long for the line, its end is shown: there the user types.
    line.text(screen.prompt + " ", TopStyle::kStrong);
    std::string typed = harmless(screen.typed, charset);
    while (!typed.empty() && cell_count(typed) + 1 > line.room()) {
      typed.erase(0, 1);
      while (!typed.empty() && (static_cast<unsigned char>(typed[0]) & 0xC0U) == 0x80U) typed.erase(0, 1);
    }
    line.text(typed);
    frame.cursor = std::min(line.column(), columns == 0 ? 0 : columns - 1);
  } else if (!screen.message.empty()) {
    line.text(screen.message, screen.is_error ? TopStyle::kBad : TopStyle::kGood);
  } else if (screen.page == TopScreen::Page::kHelp) {
    line.text("Esc back  q quit", TopStyle::kDim);
  } else {
    const bool may = figures.server.may("control");
    const bool is_list = screen.page == TopScreen::Page::kBatches;
    line.text(std::string(is_list ? "q quit  h help" : "q quit  Esc back") +
                  (may ? "  p pause  w weight  c cancel  r retry" : "") +
                  (is_list ? "  s sort  / find  Enter more" : ""),
              TopStyle::kDim);
  }
  return std::move(line).take();
}

struct Layout {
  TopLines top;          // above the batches
  std::size_t rows = 0;  // for batches, or for another page
  bool has_heading = false;
  bool has_last = false;
};

Layout lay_out(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper) {
  const auto [rows, columns] = paper.size;
  const Charset charset = paper.charset;
  Layout layout;
  TopLines& top = layout.top;
  layout.has_last = !paper.is_paper && rows >= 2;
  top.push_back(head_line(figures, screen, columns, charset));
  if (rows >= 4) top.push_back(queue_line(figures, screen, columns, charset));
  if (screen.page == TopScreen::Page::kBatches) {
    if (rows >= 12 && !figures.workers.empty()) top.push_back(worker_heading(figures, columns, charset));
    const auto add = [&](TopLines lines) {
      for (TopLine& line : lines) top.push_back(std::move(line));
    };
    if (rows >= 8 && !figures.workers.empty()) add(worker_lines(figures, rows / 4, columns, charset));
    const std::size_t tables = paper.is_paper ? rows : columns < 80 ? 2 * (rows / 8) : 1 + rows / 8;
    if (rows >= 16 && !(figures.lanes.empty() && figures.tenants.empty()))
      add(lane_and_tenant_lines(figures, tables, columns, charset));
    // A table takes lines from the batches: a short screen has the sums alone.
    if (rows >= 12 && !figures.machines.empty())
      add(machine_lines(figures, paper.is_paper ? rows : rows < 20 ? 1 : 1 + rows / 8, columns, charset));
    layout.has_heading = rows >= 3;
    if (layout.has_heading) top.push_back(batch_heading(figures, screen, columns, charset));
  }
  const std::size_t taken = std::min(rows, top.size() + (layout.has_last ? 1U : 0U));
  layout.rows = rows - taken;
  return layout;
}

void put_batches(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper, std::size_t rows,
                 TopFrame& frame) {
  const auto batches = chosen_batches(figures, screen.order, screen.filter);
  const auto chosen = std::ranges::find_if(
      batches, [&](const TopBatch* batch) { return batch->name.key == screen.selected; });
  const auto at = static_cast<std::size_t>(chosen - batches.begin());
  // The selected batch stays in the middle, except at both ends of the list.
  const std::size_t last_first = batches.size() > rows ? batches.size() - rows : 0;
  const std::size_t first =
      chosen == batches.end() ? 0 : std::min(at > rows / 2 ? at - rows / 2 : 0, last_first);
  for (std::size_t i = first; i < std::min(first + rows, batches.size()); ++i) {
    TopLine line = batch_line(figures, *batches[i], paper.size.columns, paper.charset);
    if (i == at) {
      for (TopSpan& span : line) span.style = TopStyle::kSelected;
    }
    frame.lines.push_back(std::move(line));
    frame.shown.push_back(batches[i]->name);
  }
  if (batches.empty() && rows > 0) {
    FrameLine line(paper.size.columns, paper.charset);
    line.text(screen.filter.empty() ? "no batches" : "no batch has \"" + screen.filter + "\"",
              TopStyle::kDim);
    frame.lines.push_back(std::move(line).take());
  }
}

TopLines page_lines(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper) {
  return screen.page == TopScreen::Page::kBatch
             ? detail_lines(figures, screen, paper.size.columns, paper.charset)
             : help_lines(figures, paper.size.columns, paper.charset);
}

}  // namespace

TopFrame draw_top(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper) {
  TopFrame frame;
  const auto [rows, columns] = paper.size;
  if (rows == 0 || columns == 0) return frame;
  Layout layout = lay_out(figures, screen, paper);
  if (layout.top.size() > rows) layout.top.resize(rows);
  frame.lines = std::move(layout.top);
  if (screen.page == TopScreen::Page::kBatches) {
    put_batches(figures, screen, paper, layout.rows, frame);
  } else {
    const TopLines page = page_lines(figures, screen, paper);
    const std::size_t first = std::min(screen.scrolled, page.size());
    for (std::size_t i = first; i < std::min(first + layout.rows, page.size()); ++i)
      frame.lines.push_back(page[i]);
  }
  if (!layout.has_last) return frame;
  frame.lines.resize(rows - 1);
  frame.lines.push_back(last_line(figures, screen, frame, columns, paper.charset));
  return frame;
}

std::size_t page_length(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper) {
  if (screen.page == TopScreen::Page::kBatches) return lay_out(figures, screen, paper).rows;
  return page_lines(figures, screen, paper).size();
}

}  // namespace locksley::cli
