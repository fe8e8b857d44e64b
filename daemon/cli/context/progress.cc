#include "daemon/cli/context/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

void RateMeter::update(std::uint64_t done, Time now) {
  const double seconds = std::chrono::duration<double>(now - last_).count();
  if (seconds <= 0) return;
  const double rate = static_cast<double>(done - std::min(done, last_done_)) / seconds;
  const double keep = has_rate_ ? std::exp(-seconds / kMemorySeconds) : 0;
  rate_ = keep * rate_ + (1 - keep) * rate;
  has_rate_ = true;
  last_ = now;
  last_done_ = done;
}

std::string progress_line(const ProgressCounts& counts, double jobs_per_second, std::size_t width) {
  // The two numbers may be updated in any order, but no more jobs can be done than there are.
  const std::uint64_t total = std::max(counts.total, counts.done);
  std::string figures = with_commas(counts.done) + "/" + with_commas(total) + (counts.is_open ? "+" : "");
  const double fraction = total == 0 ? 1.0 : static_cast<double>(counts.done) / static_cast<double>(total);
  if (!counts.is_open) figures += " " + percent(fraction);
  if (counts.failed > 0) figures += "  " + with_commas(counts.failed) + " failed";
  figures += "  " + short_number(jobs_per_second) + " jobs/s";
  if (!counts.is_open && jobs_per_second > 0 && counts.done < total) {
    const double left = static_cast<double>(total - counts.done) / jobs_per_second;
    // An estimate of more than a year says nothing.
    if (left < 365.0 * 86400) {
      figures += "  " + short_duration(std::chrono::milliseconds(std::llround(left * 1000))) + " left";
    }
  }
  if (counts.is_open || figures.size() + 13 > width) return figures.substr(0, width);
  const std::size_t bar = std::min<std::size_t>(40, width - figures.size() - 3);
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(bar));
  return "[" + std::string(filled, '#') + std::string(bar - filled, '-') + "] " + figures;
}

Progress::Progress(WhenProgress when, std::string label)
    : label_(printable(label)), terminal_(::isatty(STDERR_FILENO) == 1), rate_(now()) {
  shown_ = when == WhenProgress::kAlways || (when == WhenProgress::kAuto && terminal_);
}

void Progress::update(const ProgressCounts& counts) {
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000);
  if (!shown_ || (!was_cleared_ && now() - last_drawn_ < interval)) return;
  draw(counts);
}

void Progress::draw(const ProgressCounts& counts) {
  last_drawn_ = now();
  rate_.update(counts.done, last_drawn_);
  winsize size{};
  if (terminal_ && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) width_ = size.ws_col;
  const std::string label = label_.empty() ? "" : label_ + " ";
  const std::size_t room = width_ > label.size() + 20 ? width_ - label.size() - 1 : 20;
  const std::string line = label + progress_line(counts, rate_.per_second(), room);
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
  drawn_ = true;
  was_cleared_ = false;
}

void Progress::finish(const ProgressCounts& counts) {
  if (!shown_) return;
  draw(counts);
  if (terminal_) std::fputs("\n", stderr);
  drawn_ = false;
}

void Progress::clear() {
  if (!drawn_ || !terminal_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
  was_cleared_ = true;
}

}  // namespace locksley::cli
