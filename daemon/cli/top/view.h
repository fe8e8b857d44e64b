// From figures and choices to the lines of a screen, for `locksley top`. Pure functions; nothing
// blocks or fails.
#pragma once

#include <string>

#include "daemon/cli/top/frame.h"
#include "daemon/cli/top/model.h"

namespace locksley::cli {

// The choices of the user, and the message that is shown.
struct TopScreen {
  enum class Page { kBatches, kBatch, kHelp };

  std::string address = {};
  Page page = Page::kBatches;
  TopOrder order = TopOrder::kNewest;
  std::string filter = {};
  std::string selected = {};  // a batch's key; empty, or one that is not there: none
  std::size_t scrolled = 0;   // lines of a page that is longer than the screen
  std::string lost = {};      // why there is no connection; empty: there is one
  std::string message = {};   // in the last line, in place of the keys
  bool is_error = false;      // the message
  std::string prompt = {};    // a question, in place of both, followed by the typed answer
  std::string typed = {};
};

// What the lines are drawn for: a screen, which they fill, or a file or pipe, where the page is as
// long as its content, and no line names keys.
struct TopPaper {
  TopSize size;
  Charset charset = Charset::kUtf8;
  bool is_paper = false;  // a file or pipe
};
TopFrame draw_top(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper);

// For scrolling: the number of lines of the page, also of those that the screen does not show; on
// the page kBatches, the number of batches for which the screen has room.
std::size_t page_length(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper);

}  // namespace locksley::cli
