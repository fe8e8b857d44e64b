// The terminal of `locksley top`.
#pragma once

#include <optional>

#include "daemon/cli/top/control.h"
#include "daemon/cli/top/frame.h"

struct screen;  // of curses

namespace locksley::cli {

// The charset of the program's locale; first sets the locale of characters (LC_CTYPE) from the
// environment.
Charset charset_of_locale();

// The terminal as a grid of cells, by ncurses; no other file includes curses.
//
// One in a process, used by one thread; in its lifetime nothing else writes to the terminal. The
// destructor restores the terminal in every case. The caller has blocked SIGWINCH, SIGTSTP and
// SIGCONT in all threads, and calls resized() and suspend() when they come. Writing blocks while
// the terminal does.
class TopTerminal {
 public:
  // Whether standard input and output are a terminal on which a cursor can be moved.
  static bool is_there();

  TopTerminal();
  ~TopTerminal();
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;

  TopSize size() const;
  void draw(const TopFrame& frame);
  // The next key; none if no key was pressed. Blocks only after an Escape, for 25 ms at most.
  std::optional<TopKey> read_key();

  // Call it when the terminal has another size, or something else has written to it.
  void resized();
  // Gives the terminal back and stops the process, as Ctrl-Z asks; returns when the process
  // continues.
  void suspend();

 private:
  int attribute_of(TopStyle style) const;

  ::screen* const screen_;
  bool has_colours_ = false;
};

}  // namespace locksley::cli
