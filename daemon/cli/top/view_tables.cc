// Workers, remote workers, lanes and tenants.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "daemon/cli/text/number_text.h"
#include "daemon/cli/top/view_parts.h"

namespace locksley::cli {
namespace {

// The cells of a worker with all its figures, and of one with its bar and percentage alone; both
// with the space after it.
constexpr std::size_t kFullCells = 38;
constexpr std::size_t kNarrowCells = 18;

TopStyle style_of(double busy) { return busy >= 0.9 ? TopStyle::kWarn : TopStyle::kGood; }

std::string rounded_percent(double fraction) { return std::to_string(std::lround(fraction * 100)) + "%"; }

std::size_t lines_of(std::size_t count, std::size_t on_a_line) {
  return on_a_line == 0 ? count + 1 : (count + on_a_line - 1) / on_a_line;
}

void put_full(FrameLine& line, const TopWorker& worker) {
  const std::size_t begin = line.column();
  line.text(fitted(std::to_string(worker.worker), 3, line.charset(), Side::kRight)).text(" ");
  line.text(bar(worker.busy, 11, line.charset()), style_of(worker.busy));
  line.cell(rounded_percent(worker.busy), 4, Side::kRight);
  line.text(" q").text(fitted(short_number(static_cast<double>(worker.queue_depth)), 5, line.charset()));
  line.text(" s").text(fitted(short_number(worker.steals_per_second) + "/s", 7, line.charset()));
  line.skip_to(begin + kFullCells);
}

void put_narrow(FrameLine& line, const TopWorker& worker) {
  const std::size_t begin = line.column();
  line.text(fitted(std::to_string(worker.worker), 3, line.charset(), Side::kRight)).text(" ");
  line.text(bar(worker.busy, 8, line.charset()), style_of(worker.busy));
  line.cell(rounded_percent(worker.busy), 4, Side::kRight);
  line.skip_to(begin + kNarrowCells);
}

// Fills the grid column by column, so that neighbours stand below each other.
template <class Put>
TopLines grid(const std::vector<TopWorker>& workers, std::size_t on_a_line, std::size_t columns,
              Charset charset, Put put) {
  const std::size_t rows = lines_of(workers.size(), on_a_line);
  TopLines lines;
  for (std::size_t row = 0; row < rows; ++row) {
    FrameLine line(columns, charset);
    for (std::size_t i = row; i < workers.size(); i += rows) put(line, workers[i]);
    lines.push_back(std::move(line).take());
  }
  return lines;
}

// One cell for each worker; if that is too much, one cell for several workers, with their mean.
TopLines condensed(const std::vector<TopWorker>& workers, std::size_t rows, std::size_t columns,
                   Charset charset) {
  const std::size_t cells = std::max<std::size_t>(rows * columns, 1);
  const std::size_t together = std::max<std::size_t>((workers.size() + cells - 1) / cells, 1);
  TopLines lines;
  FrameLine line(columns, charset);
  for (std::size_t i = 0; i < workers.size(); i += together) {
    double sum = 0;
    const std::size_t end = std::min(i + together, workers.size());
    for (std::size_t k = i; k < end; ++k) sum += workers[k].busy;
    const double mean = sum / static_cast<double>(end - i);
    if (line.room() == 0) lines.push_back(std::move(std::exchange(line, {columns, charset})).take());
    line.text(column(mean, charset), style_of(mean));
  }
  if (line.column() > 0 || lines.empty()) lines.push_back(std::move(line).take());
  return lines;
}

struct Column {
  std::string_view title;
  std::size_t cells;
};

std::size_t name_cells(std::size_t columns, std::span<const Column> numbers) {
  std::size_t used = 0;
  for (const Column& column : numbers) used += column.cells + 1;
  return columns > used + 4 ? std::min<std::size_t>(columns - used, 32) : 4;
}

// Rows of a name and numbers below a heading; `put` writes row i. The last row says how many rows
// do not fit.
template <class Put>
TopLines table(std::string_view title, std::span<const Column> numbers, std::size_t count, std::size_t rows,
               std::size_t columns, Charset charset, Put put) {
  TopLines lines;
  const std::size_t wide = name_cells(columns, numbers);
  FrameLine heading(columns, charset);
  heading.cell(title, wide);
  for (const Column& column : numbers) heading.cell(column.title, column.cells, Side::kRight);
  lines.push_back(std::move(heading.paint(TopStyle::kHead)).take());
  const std::size_t room = rows - 1;
  const std::size_t shown = count <= room ? count : room - std::min<std::size_t>(room, 1);
  for (std::size_t i = 0; i < shown; ++i) {
    FrameLine line(columns, charset);
    put(line, i, wide);
    lines.push_back(std::move(line).take());
  }
  if (shown < count && room > 0) {
    FrameLine line(columns, charset);
    line.text("and " + std::to_string(count - shown) + " more", TopStyle::kDim);
    lines.push_back(std::move(line).take());
  }
  return lines;
}

TopLines lane_table(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset) {
  static constexpr Column kNumbers[] = {{"SLOTS", 5}, {"RUN", 5}, {"QUEUED", 6}, {"BATCHES", 7}};
  return table("LANE", kNumbers, figures.lanes.size(), rows, columns, charset,
               [&](FrameLine& line, std::size_t i, std::size_t wide) {
                 const TopLane& lane = figures.lanes[i];
                 const bool is_full = lane.slots > 0 && lane.running >= lane.slots;
                 line.cell(lane.name, wide);
                 line.cell(short_number(static_cast<double>(lane.slots)), 5, Side::kRight);
                 line.cell(short_number(static_cast<double>(lane.running)), 5, Side::kRight,
                           is_full ? TopStyle::kWarn : TopStyle::kPlain);
                 line.cell(short_number(static_cast<double>(lane.queued)), 6, Side::kRight);
                 line.cell(short_number(static_cast<double>(lane.batches)), 7, Side::kRight);
               });
}

TopLines tenant_table(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset) {
  static constexpr Column kNumbers[] = {{"WT", 4}, {"DUE", 4}, {"GOT", 4}, {"RUN", 5}, {"QUEUED", 6}};
  return table("TENANT", kNumbers, figures.tenants.size(), rows, columns, charset,
               [&](FrameLine& line, std::size_t i, std::size_t wide) {
                 const client::TenantInfo& tenant = figures.tenants[i];
                 // More than a fifth below its due, which is not tiny: the tenant is starved, or
                 // has just come.
                 const bool is_short = tenant.share > 0.02 && tenant.received < 0.8 * tenant.share;
                 line.cell(tenant.tenant, wide);
                 line.cell(std::to_string(tenant.weight), 4, Side::kRight);
                 line.cell(rounded_percent(tenant.share), 4, Side::kRight);
                 line.cell(rounded_percent(tenant.received), 4, Side::kRight,
                           is_short ? TopStyle::kWarn : TopStyle::kPlain);
                 line.cell(short_number(static_cast<double>(tenant.running)), 5, Side::kRight);
                 line.cell(short_number(static_cast<double>(tenant.queued)), 6, Side::kRight);
               });
}

// 0: not measured.
std::string round_trip(std::uint64_t rtt_us) {
  if (rtt_us == 0) return "-";
  if (rtt_us < 1000) return std::to_string(rtt_us) + "us";
  return short_duration(std::chrono::milliseconds(rtt_us / 1000));
}

TopStyle style_of(const client::MachineInfo& machine) {
  return machine.busy > 0 ? TopStyle::kGood : TopStyle::kPlain;
}

TopStyle style_of_lost(std::uint64_t leases) { return leases > 0 ? TopStyle::kBad : TopStyle::kPlain; }

TopLine machine_sums(const TopFigures& figures, std::size_t columns, Charset charset) {
  std::uint64_t busy = 0;
  std::uint64_t slots = 0;
  std::uint64_t lost = 0;
  for (const client::MachineInfo& machine : figures.machines) {
    busy += machine.busy;
    slots += machine.slots;
    lost += machine.lost;
  }
  const std::size_t count = figures.machines.size();
  FrameLine line(columns, charset);
  line.text(std::to_string(count) + (count == 1 ? " machine" : " machines"), TopStyle::kStrong);
  line.text("  " + short_number(static_cast<double>(busy)) + "/" + short_number(static_cast<double>(slots)) +
            " slots in use  ");
  line.text(short_number(static_cast<double>(lost)) + (lost == 1 ? " lease lost" : " leases lost"),
            style_of_lost(lost));
  return std::move(line).take();
}

TopLines machine_table(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset) {
  static constexpr Column kNumbers[] = {{"IN USE", 9}, {"LEASES", 6}, {"LOST", 5}, {"RTT", 6}, {"JOBS", 5}};
  constexpr std::size_t kWide = 60;  // from here on there is room for all of them
  const std::span<const Column> numbers = std::span(kNumbers).first(columns < kWide ? 3 : 5);
  return table("MACHINE", numbers, figures.machines.size(), rows, columns, charset,
               [&](FrameLine& line, std::size_t i, std::size_t wide) {
                 const client::MachineInfo& machine = figures.machines[i];
                 line.cell(machine.name, wide);
                 line.cell(std::to_string(machine.busy) + "/" + std::to_string(machine.slots), 9,
                           Side::kRight, style_of(machine));
                 line.cell(short_number(static_cast<double>(machine.leases)), 6, Side::kRight);
                 line.cell(short_number(static_cast<double>(machine.lost)), 5, Side::kRight,
                           style_of_lost(machine.lost));
                 if (columns < kWide) return;
                 line.cell(round_trip(machine.rtt_us), 6, Side::kRight);
                 line.cell(short_number(static_cast<double>(machine.jobs)), 5, Side::kRight);
               });
}

std::size_t cells_of(const TopLine& line) {
  std::size_t sum = 0;
  for (const TopSpan& span : line) sum += cell_count(span.text);
  return sum;
}

}  // namespace

TopLines worker_lines(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset) {
  rows = std::max<std::size_t>(rows, 1);
  const std::vector<TopWorker>& workers = figures.workers;
  // The last one needs no space after it.
  const std::size_t full = (columns + 1) / kFullCells;
  if (full > 0 && lines_of(workers.size(), full) <= rows)
    return grid(workers, full, columns, charset, put_full);
  const std::size_t narrow = (columns + 1) / kNarrowCells;
  if (narrow > 0 && lines_of(workers.size(), narrow) <= rows)
    return grid(workers, narrow, columns, charset, put_narrow);
  return condensed(workers, rows, columns, charset);
}

TopLines machine_lines(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset) {
  if (rows <= 1) return {machine_sums(figures, columns, charset)};
  return machine_table(figures, rows, columns, charset);
}

TopLines lane_and_tenant_lines(const TopFigures& figures, std::size_t rows, std::size_t columns,
                               Charset charset) {
  constexpr std::size_t kSideBySide = 80;
  if (columns < kSideBySide) {
    TopLines lines = lane_table(figures, (rows + 1) / 2, columns, charset);
    if (rows / 2 > 1) {
      for (TopLine& line : tenant_table(figures, rows / 2, columns, charset))
        lines.push_back(std::move(line));
    }
    return lines;
  }
  const std::size_t half = columns / 2;
  TopLines lanes = lane_table(figures, rows, half - 2, charset);
  TopLines tenants = tenant_table(figures, rows, columns - half, charset);
  const std::size_t count = std::max(lanes.size(), tenants.size());
  lanes.resize(count);
  tenants.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    lanes[i].push_back({std::string(half - cells_of(lanes[i]), ' '), TopStyle::kPlain});
    for (TopSpan& span : tenants[i]) lanes[i].push_back(std::move(span));
  }
  return lanes;
}

}  // namespace locksley::cli
