#include "daemon/cli/text/screen_text.h"

#include <wchar.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdint>

#include "daemon/cli/text/utf8.h"

namespace locksley::cli {
namespace {

// Selects the C library's tables for UTF-8, for this thread and for the life of this object.
class Utf8Locale {
 public:
  Utf8Locale() : before_(::uselocale(utf8())) {}
  ~Utf8Locale() { ::uselocale(before_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  // Built into the C library. Where it is missing the result is 0, which changes nothing.
  static locale_t utf8() {
    static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return locale;
  }
  const locale_t before_;
};

// How many cells the character takes; -1: it must not be shown.
int width_of(char32_t point) { return is_control(point) ? -1 : ::wcwidth(static_cast<wchar_t>(point)); }

// Calls `visit(sequence, cells)` for each code point, until it returns false. A code point that the
// C library does not know counts as one cell.
template <class Visit>
void for_each_sequence(std::string_view text, Visit visit) {
  const Utf8Locale locale;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_sequence(text), 1);
    const std::string_view sequence = text.substr(0, length);
    const int cells = length == 1 ? 1 : width_of(code_point(sequence));
    if (!visit(sequence, static_cast<std::size_t>(cells < 0 ? 1 : cells))) return;
    text.remove_prefix(length);
  }
}

double clamped(double fraction) { return std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0; }

}  // namespace

std::string harmless(std::string_view text, Charset charset) {
  const Utf8Locale locale;
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    const bool is_shown =
        length == 1 ? sequence[0] >= 0x20 && sequence[0] < 0x7F
                    : length > 1 && charset == Charset::kUtf8 && width_of(code_point(sequence)) >= 0;
    out += is_shown ? sequence : "?";
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::size_t cell_count(std::string_view text) {
  std::size_t sum = 0;
  for_each_sequence(text, [&](std::string_view, std::size_t cells) {
    sum += cells;
    return true;
  });
  return sum;
}

std::string fitted(std::string_view text, std::size_t cells, Charset charset, Side align) {
  std::string shown = harmless(text, charset);
  std::size_t used = cell_count(shown);
  if (used > cells) {
    if (cells == 0) return "";
    std::string cut;
    used = 1;  // the mark
    for_each_sequence(shown, [&](std::string_view sequence, std::size_t wide) {
      if (used + wide > cells) return false;
      cut += sequence;
      used += wide;
      return true;
    });
    shown = cut + (charset == Charset::kUtf8 ? "…" : "~");
  }
  const std::string fill(cells - used, ' ');
  return align == Side::kRight ? fill + shown : shown + fill;
}

std::string bar(double fraction, std::size_t cells, Charset charset) {
  const double filled = clamped(fraction) * static_cast<double>(cells);
  if (charset == Charset::kAscii) {
    const auto whole = static_cast<std::size_t>(std::lround(filled));
    return std::string(whole, '#') + std::string(cells - whole, '-');
  }
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::lround(filled * 8));
  std::string out;
  for (std::size_t i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[eighths % 8];
  const std::size_t used = (eighths + 7) / 8;
  // Dots, so that the end of the bar is visible.
  for (std::size_t i = used; i < cells; ++i) out += "·";
  return out;
}

std::string column(double fraction, Charset charset) {
  if (charset == Charset::kAscii) {
    const auto tenths = static_cast<std::size_t>(std::lround(clamped(fraction) * 10));
    return std::string(1, "0123456789X"[tenths]);
  }
  static constexpr std::string_view kColumns[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  return std::string(kColumns[std::lround(clamped(fraction) * 8)]);
}

}  // namespace locksley::cli
