// The terminal of `locksley top`.
#pragma once

#include <optional>

#include "daemon/cli/top/control.h"
#include "daemon/cli/top/frame.h"

struct screen;  // of curses

namespace locksley::cli {

// How the program's locale writes; sets it for letters (LC_CTYPE) as the environment says.
Charset charset_of_locale();

// The terminal as a grid of cells, by ncurses: the only file that knows it.
//
// One in a process, used by one thread; in its lifetime nothing else writes to the terminal. The
// destructor leaves the terminal as it was, whatever is under way. The caller has blocked SIGWINCH,
// SIGTSTP and SIGCONT in all threads, and calls resized() and suspend() when they come. Writing
// blocks while the terminal does.
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
  // What was typed; nothing if nothing was. Waits 25 ms at most, behind an Escape.
  std::optional<TopKey> read_key();

  // The terminal has another size, or something else has written to it.
  void resized();
  // Gives the terminal back and stops the process, as Ctrl-Z asks; returns when it goes on.
  void suspend();

 private:
  int attribute_of(TopStyle style) const;

  ::screen* const screen_;
  bool has_colours_ = false;
};

}  // namespace locksley::cli
