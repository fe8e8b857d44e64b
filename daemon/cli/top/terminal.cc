#include "daemon/cli/top/terminal.h"

// Selects functions instead of macros where curses has both.
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <stdexcept>

// A macro of terminfo, but an ordinary name here.
#undef lines

namespace locksley::cli {

using KeyName = TopKey::Name;

namespace {

enum Pair : short { kGreen = 1, kYellow, kRed };

// How long curses waits after an Escape for the rest of an escape sequence, which comes at once.
// The Escape key takes effect after this time.
constexpr int kEscapeMs = 25;

// https://no-color.org: set, and not empty.
bool wants_no_colour() {
  const char* const value = std::getenv("NO_COLOR");
  return value != nullptr && *value != '\0';
}

TopKey to_key(wint_t code) {
  switch (code) {
    case KEY_UP:
      return {KeyName::kUp};
    case KEY_DOWN:
      return {KeyName::kDown};
    case KEY_PPAGE:
      return {KeyName::kPageUp};
    case KEY_NPAGE:
      return {KeyName::kPageDown};
    case KEY_HOME:
      return {KeyName::kHome};
    case KEY_END:
      return {KeyName::kEnd};
    case KEY_ENTER:
      return {KeyName::kEnter};
    case KEY_BACKSPACE:
    case KEY_LEFT:
      return {KeyName::kErase};
    default:
      return {KeyName::kOther};
  }
}

TopKey to_letter(wint_t letter) {
  switch (letter) {
    case L'\r':
    case L'\n':
      return {KeyName::kEnter};
    case 0x1B:
      return {KeyName::kEscape};
    case 0x08:
    case 0x7F:
      return {KeyName::kErase};
    default:
      break;
  }
  if (letter < 0x20) return {KeyName::kOther};
  char bytes[MB_LEN_MAX];
  std::mbstate_t state{};
  const std::size_t length = std::wcrtomb(bytes, static_cast<wchar_t>(letter), &state);
  if (length == static_cast<std::size_t>(-1)) return {KeyName::kOther};
  return {KeyName::kLetter, std::string(bytes, length)};
}

// Never runs: the signal is blocked. If the signal has a handler, curses does not touch it.
// Otherwise curses would ignore SIGTSTP while it draws, and the kernel drops a pending signal that
// becomes ignored.
void never_runs(int) {}

SCREEN* open_screen() {
  struct sigaction current{};
  if (::sigaction(SIGTSTP, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGTSTP, never_runs);
  }
  return ::newterm(nullptr, stdout, stdin);
}

}  // namespace

Charset charset_of_locale() {
  std::setlocale(LC_CTYPE, "");
  return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0 ? Charset::kUtf8 : Charset::kAscii;
}

bool TopTerminal::is_there() {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) return false;
  int ignored = 0;
  if (::setupterm(nullptr, STDOUT_FILENO, &ignored) != OK) return false;
  const bool can_move = cursor_address != nullptr;
  ::del_curterm(cur_term);
  return can_move;
}

TopTerminal::TopTerminal() : screen_(open_screen()) {
  if (screen_ == nullptr) throw std::runtime_error("the terminal cannot be used as a screen");
  ::set_term(screen_);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(kEscapeMs);
  ::curs_set(0);
  has_colours_ = !wants_no_colour() && ::has_colors() && ::start_color() == OK;
  if (!has_colours_) return;
  const short background = ::use_default_colors() == OK ? short{-1} : short{COLOR_BLACK};
  ::init_pair(kGreen, COLOR_GREEN, background);
  ::init_pair(kYellow, COLOR_YELLOW, background);
  ::init_pair(kRed, COLOR_RED, background);
}

TopTerminal::~TopTerminal() {
  ::endwin();
  ::delscreen(screen_);
}

TopSize TopTerminal::size() const {
  return {static_cast<std::size_t>(std::max(LINES, 0)), static_cast<std::size_t>(std::max(COLS, 0))};
}

int TopTerminal::attribute_of(TopStyle style) const {
  const auto coloured = [this](short pair) { return has_colours_ ? static_cast<int>(COLOR_PAIR(pair)) : 0; };
  switch (style) {
    case TopStyle::kPlain:
      return 0;
    case TopStyle::kDim:
      return static_cast<int>(A_DIM);
    case TopStyle::kStrong:
      return static_cast<int>(A_BOLD);
    case TopStyle::kHead:
    case TopStyle::kSelected:
      return static_cast<int>(A_REVERSE);
    case TopStyle::kGood:
      return coloured(kGreen);
    case TopStyle::kWarn:
      return coloured(kYellow);
    case TopStyle::kBad:
      return coloured(kRed) | static_cast<int>(A_BOLD);
  }
  return 0;
}

void TopTerminal::draw(const TopFrame& frame) {
  ::werase(stdscr);
  for (std::size_t row = 0; row < frame.lines.size(); ++row) {
    ::wmove(stdscr, static_cast<int>(row), 0);
    for (const TopSpan& span : frame.lines[row]) {
      wattrset(stdscr, attribute_of(span.style));
      ::waddnstr(stdscr, span.text.data(), static_cast<int>(span.text.size()));
    }
  }
  wattrset(stdscr, 0);
  ::curs_set(frame.cursor ? 1 : 0);
  if (frame.cursor && !frame.lines.empty())
    ::wmove(stdscr, static_cast<int>(frame.lines.size()) - 1, static_cast<int>(*frame.cursor));
  ::wrefresh(stdscr);
}

std::optional<TopKey> TopTerminal::read_key() {
  wint_t code = 0;
  switch (::wget_wch(stdscr, &code)) {
    case OK:
      return to_letter(code);
    case KEY_CODE_YES:
      return to_key(code);
    default:
      return {};
  }
}

void TopTerminal::resized() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    ::resizeterm(size.ws_row, size.ws_col);
  ::clearok(curscr, TRUE);
}

void TopTerminal::suspend() {
  ::endwin();
  // SIGTSTP gets its default effect, once.
  struct sigaction usual{};
  struct sigaction before{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &usual, &before);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // here the process stops
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::sigaction(SIGTSTP, &before, nullptr);
  resized();
}

}  // namespace locksley::cli
