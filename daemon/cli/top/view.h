#pragma once

#include <string>

#include "daemon/cli/top/frame.h"
#include "daemon/cli/top/model.h"

namespace locksley::cli {

// What the person at the screen has chosen, and what is said to them.
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
  std::string prompt = {};    // a question, in place of both, with what is typed behind it
  std::string typed = {};
};

// The screen: figures and choices as lines, for any size. `is_paper`: what is not a screen, that
// is, as long as there is something to show, and without keys.
struct TopPaper {
  TopSize size;
  Charset charset = Charset::kUtf8;
  bool is_paper = false;
};
TopFrame draw_top(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper);

// How many lines the page has, however few of them the screen shows; on the page kBatches, how many
// batches the screen shows. From it follows how far keys scroll.
std::size_t page_length(const TopFigures& figures, const TopScreen& screen, const TopPaper& paper);

}  // namespace locksley::cli
