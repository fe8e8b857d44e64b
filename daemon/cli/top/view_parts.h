// The parts of a screen, each as lines; see view.h. All are functions of their arguments alone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/cli/top/view.h"

namespace locksley::cli {

using TopLines = std::vector<TopLine>;

// ---- view_tables.cc ----

// How busy the workers are, in at most `rows` lines, but at least one: a bar for each worker, a
// narrower bar if there are many, one cell if there are very many.
TopLines worker_lines(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset);
// Remote workers, in at most `rows` lines, at least one: a table, or if there is only one line,
// their sums.
TopLines machine_lines(const TopFigures& figures, std::size_t rows, std::size_t columns, Charset charset);
// Lanes and tenants, side by side where there is room; at most `rows` of each, headings included.
TopLines lane_and_tenant_lines(const TopFigures& figures, std::size_t rows, std::size_t columns,
                               Charset charset);

// ---- view_batches.cc ----

TopLine batch_heading(const TopFigures& figures, const TopScreen& screen, std::size_t columns,
                      Charset charset);
TopLine batch_line(const TopFigures& figures, const TopBatch& batch, std::size_t columns, Charset charset);

// ---- view_pages.cc ----

TopLines detail_lines(const TopFigures& figures, const TopScreen& screen, std::size_t columns,
                      Charset charset);
TopLines help_lines(const TopFigures& figures, std::size_t columns, Charset charset);

// 12.3MiB
std::string short_bytes(double bytes);

}  // namespace locksley::cli
