// top's screens: whole ones as they are in top_frames/, and what holds for every size and every
// text.

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "daemon/cli/text/screen_text.h"
#include "daemon/cli/top/view.h"
#include "tests/unit/daemon/cli/top/support.h"

namespace locksley::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Page = TopScreen::Page;
using testing::batch_status;
using testing::model_of;
using testing::snapshot_at;

TopScreen screen_of(Page page = Page::kBatches) {
  TopScreen screen;
  screen.address = "127.0.0.1:7770";
  screen.page = page;
  screen.selected = "bert/thumbs";
  return screen;
}

TopPaper paper_of(std::size_t columns, std::size_t rows, Charset charset) {
  return {.size = {.rows = rows, .columns = columns}, .charset = charset};
}

std::string frame_file(const std::string& name) {
  std::ifstream file(std::string(LOCKSLEY_TOP_FRAMES) + "/" + name + ".txt");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::size_t widest(const TopFrame& frame) {
  std::size_t most = 0;
  for (const TopLine& line : frame.lines) {
    std::size_t cells = 0;
    for (const TopSpan& span : line) cells += cell_count(span.text);
    most = std::max(most, cells);
  }
  return most;
}

TopModel model_with_detail() {
  TopModel model;
  model.take(snapshot_at(0));
  TopSnapshot shot = snapshot_at(1);
  shot.detail = testing::detail_of_thumbs();
  model.take(std::move(shot));
  return model;
}

struct Golden {
  const char* name;
  std::size_t workers, columns, rows;
  Charset charset;
  std::size_t machines = 0;
};

class TopFramesTest : public ::testing::TestWithParam<Golden> {};

TEST_P(TopFramesTest, IsAsItIsInItsFile) {
  const Golden& golden = GetParam();
  const TopModel model = model_of(golden.workers, golden.machines);
  const TopFrame frame =
      draw_top(model.figures(), screen_of(), paper_of(golden.columns, golden.rows, golden.charset));
  EXPECT_EQ(frame.lines.size(), golden.rows);
  EXPECT_EQ(frame.text(), frame_file(golden.name));
}

INSTANTIATE_TEST_SUITE_P(Sizes, TopFramesTest,
                         ::testing::Values(Golden{"80x24", 4, 80, 24, Charset::kUtf8},
                                           Golden{"40x10-ascii", 4, 40, 10, Charset::kAscii},
                                           Golden{"200x60", 4, 200, 60, Charset::kUtf8},
                                           Golden{"80x24-128-workers", 128, 80, 24, Charset::kUtf8},
                                           Golden{"200x60-128-workers-ascii", 128, 200, 60, Charset::kAscii},
                                           Golden{"80x24-machines", 4, 80, 24, Charset::kUtf8, 12},
                                           Golden{"40x20-machines-ascii", 4, 40, 20, Charset::kAscii, 2},
                                           Golden{"60x12-machines", 4, 60, 12, Charset::kUtf8, 12}),
                         [](const auto& golden) {
                           std::string name = golden.param.name;
                           std::ranges::replace(name, '-', '_');
                           return "At" + name;
                         });

TEST(TopViewTest, OneBatchWithItsFailures) {
  const TopModel model = model_with_detail();
  // Times are local.
  TopFrame frame = draw_top(model.figures(), screen_of(Page::kBatch), paper_of(80, 30, Charset::kUtf8));
  std::string text = frame.text();
  for (const char* line : {"batch       thumbs\n", "handler     resize\n", "400, 300 queued, 1 running\n",
                           "100 ok, 3 failed, 0 cancelled, 0 retried\n", "why         running\n",
                           "share due   25.0% of its lane\n", "failures, of which 2 are shown\n",
                           "17  error  no such file: a?[2Jb?c\n", "1,800  timeout  took longer than 30s\n",
                           "looking for more: 2,000 results so far\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(TopViewTest, WhatWasJustAskedForIsNotThatOfAnotherBatch) {
  const TopModel model = model_with_detail();
  TopScreen screen = screen_of(Page::kBatch);
  screen.selected = "anna/nightly";
  const std::string text = draw_top(model.figures(), screen, paper_of(80, 30, Charset::kUtf8)).text();
  EXPECT_THAT(text, HasSubstr("asking the daemon"));
  EXPECT_THAT(text, Not(HasSubstr("thumbs")));
}

TEST(TopViewTest, NoSizeIsTooSmallAndNoLineTooLong) {
  struct Sweep {
    std::size_t workers;
    std::size_t rows_apart;  // most sizes are tried with one of the models
    std::size_t columns_apart;
  };
  for (const auto [workers, rows_apart, columns_apart] :
       {Sweep{0, 7, 11}, Sweep{1, 7, 11}, Sweep{4, 1, 3}, Sweep{128, 7, 11}}) {
    TopModel model;
    model.take(snapshot_at(0, workers));
    TopSnapshot shot = snapshot_at(1, workers);
    shot.detail = testing::detail_of_thumbs();
    shot.machines = testing::machines_of(workers == 0 ? 0 : 9);
    model.take(std::move(shot));
    for (const Page page : {Page::kBatches, Page::kBatch, Page::kHelp}) {
      for (std::size_t rows = 0; rows < 70; rows += rows < 30 ? rows_apart : 13) {
        for (std::size_t columns = 0; columns < 250; columns += columns < 130 ? columns_apart : 17) {
          for (const char* prompt : {"", "a question that is longer than many a screen is wide:"}) {
            TopScreen screen = screen_of(page);
            screen.prompt = prompt;
            screen.typed = "wörter, ääää, 中文中文中文";
            const TopFrame frame = draw_top(model.figures(), screen, paper_of(columns, rows, Charset::kUtf8));
            ASSERT_LE(frame.lines.size(), rows);
            ASSERT_LE(widest(frame), columns) << rows << " rows\n" << frame.text();
            ASSERT_LT(frame.cursor.value_or(0), std::max<std::size_t>(columns, 1));
          }
        }
      }
    }
  }
}

TEST(TopViewTest, AnEmptyDaemonIsShownAsOne) {
  TopModel model;
  model.take({});
  const std::string text = draw_top(model.figures(), screen_of(), paper_of(80, 24, Charset::kUtf8)).text();
  EXPECT_THAT(text, HasSubstr("no batches"));
  EXPECT_THAT(text, HasSubstr("0 batches  0 jobs queued"));
}

TEST(TopViewTest, NothingThatSomebodyNamedCommandsTheTerminal) {
  TopSnapshot shot = snapshot_at(0);
  shot.batches[0].name = "\x1b]0;owned\x07\xc2\x9b[2J\xe2\x80\xae\xff\n\r";
  shot.batches[0].handler = "\x1b[31m";
  shot.lanes[0].name = "\x1b[H";
  shot.tenants[0].tenant = "\x1b[J\t";
  shot.machines = testing::machines_of(1);
  shot.machines[0].name = "\x1b[2J\xe2\x80\xae";
  shot.server.version =
      "\x1b"
      "c";
  shot.refusal = "NOPERM \x1b[2J";
  shot.explanations["anna/later"].reason = "\x1b[5m";
  TopModel model;
  model.take(std::move(shot));
  TopScreen screen = screen_of();
  screen.filter = "\x1b";
  for (const char* filter : {"", "\x1b"}) {
    screen.filter = filter;
    for (const char* message : {"", "\x1b[2J"}) {
      screen.message = message;
      for (const Charset charset : {Charset::kUtf8, Charset::kAscii}) {
        const TopFrame frame = draw_top(model.figures(), screen, paper_of(200, 60, charset));
        for (const TopLine& line : frame.lines) {
          for (const TopSpan& span : line) {
            for (const char c : span.text) {
              ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) << frame.text();
              ASSERT_TRUE(charset == Charset::kUtf8 || static_cast<unsigned char>(c) < 0x7F) << frame.text();
            }
            ASSERT_EQ(harmless(span.text, charset), span.text);
          }
        }
      }
    }
  }
}

TEST(TopViewTest, WhatIsTroubleIsSeenAsSuch) {
  TopSnapshot shot = snapshot_at(1);
  shot.server.is_draining = true;
  shot.server.store = "failing";
  shot.server.store_errors = 12;
  shot.has_all_active = false;
  TopModel model;
  model.take(std::move(shot));
  TopScreen screen = screen_of();
  std::string text = draw_top(model.figures(), screen, paper_of(120, 24, Charset::kUtf8)).text();
  EXPECT_THAT(text, HasSubstr("  draining  "));
  EXPECT_THAT(text, HasSubstr("store failing 1.2GiB 12 errors"));
  EXPECT_THAT(text, HasSubstr("the newest are shown"));
  screen.lost = "127.0.0.1:7770: Connection refused";
  text = draw_top(model.figures(), screen, paper_of(120, 24, Charset::kUtf8)).text();
  EXPECT_THAT(text, HasSubstr("not connected"));
  EXPECT_THAT(text, HasSubstr("127.0.0.1:7770: Connection refused; trying again"));
}

TEST(TopViewTest, WhatAUserMayNotDoIsNotOffered) {
  TopSnapshot shot = snapshot_at(1);
  shot.server.groups = "read";
  TopModel model;
  model.take(std::move(shot));
  for (const Page page : {Page::kBatches, Page::kBatch, Page::kHelp}) {
    const std::string text =
        draw_top(model.figures(), screen_of(page), paper_of(80, 24, Charset::kUtf8)).text();
    EXPECT_THAT(text, Not(HasSubstr("cancel it"))) << text;
    EXPECT_THAT(text, Not(HasSubstr("c cancel"))) << text;
  }
}

TEST(TopViewTest, TheSelectedBatchIsOnTheScreenAmongAnyNumber) {
  TopSnapshot shot = snapshot_at(1);
  for (int i = 0; i < 300; ++i)
    shot.batches.push_back(batch_status("many-" + std::to_string(i), "queued", 10, 0, 10'000 + i));
  TopModel model;
  model.take(std::move(shot));
  for (const char* id : {"many-299", "many-150", "many-0", "thumbs", "gone"}) {
    TopScreen screen = screen_of();
    screen.selected = (std::string(id) == "thumbs" ? "bert/" : "anna/") + std::string(id);
    const TopFrame frame = draw_top(model.figures(), screen, paper_of(80, 24, Charset::kUtf8));
    EXPECT_EQ(std::ranges::count(frame.shown, screen.selected, &TopBatchName::key), 1) << id;
    std::size_t selected = 0;
    for (const TopLine& line : frame.lines)
      selected += !line.empty() && line[0].style == TopStyle::kSelected ? 1U : 0U;
    EXPECT_EQ(selected, 1U) << id;
  }
}

TEST(TopViewTest, AScreenWithoutRoomForATableOfMachinesHasTheirSums) {
  const TopModel model = model_of(4, 3);
  const auto text = [&](std::size_t rows) {
    return draw_top(model.figures(), screen_of(), paper_of(80, rows, Charset::kUtf8)).text();
  };
  EXPECT_THAT(text(20), HasSubstr("\nMACHINE "));
  EXPECT_THAT(text(20), HasSubstr("\nand 2 more\n"));
  EXPECT_THAT(text(19), Not(HasSubstr("MACHINE")));
  EXPECT_THAT(text(19), HasSubstr("\n3 machines  15/192 slots in use  2 leases lost\n"));
  EXPECT_THAT(text(12), HasSubstr("\n3 machines "));
  EXPECT_THAT(text(11), Not(HasSubstr("machines")));
}

TEST(TopViewTest, PaperHasEverythingAndNoKeys) {
  TopSnapshot shot = snapshot_at(1, 128);
  shot.machines = testing::machines_of(100);
  for (int i = 0; i < 100; ++i)
    shot.batches.push_back(batch_status("many-" + std::to_string(i), "queued", 10, 0, 10'000 + i));
  TopModel model;
  model.take(std::move(shot));
  TopPaper paper = paper_of(120, 1000, Charset::kAscii);
  paper.is_paper = true;
  const std::string text = draw_top(model.figures(), screen_of(), paper).text();
  for (const char* part :
       {"\n  0 ----", "127 ----", "many-0 ", "many-99 ", "gone ", "resize ", "render-0 ", "render-99 "})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("q quit")));
  EXPECT_THAT(text, Not(HasSubstr("\n\n")));
}

TEST(ScreenTextTest, CellsAreWhatATerminalGivesThem) {
  EXPECT_EQ(cell_count("abc"), 3U);
  EXPECT_EQ(cell_count("äöü"), 3U);
  EXPECT_EQ(cell_count("中文"), 4U);
  EXPECT_EQ(cell_count("e\u0301"), 1U);
  EXPECT_EQ(fitted("中文中", 5, Charset::kUtf8), "中文…");
  EXPECT_EQ(fitted("中文中", 4, Charset::kUtf8), "中… ");
  EXPECT_EQ(fitted("abc", 5, Charset::kUtf8, Side::kRight), "  abc");
  EXPECT_EQ(fitted("abcdef", 4, Charset::kAscii), "abc~");
  EXPECT_EQ(fitted("äb", 3, Charset::kAscii), "?b ");
  EXPECT_EQ(fitted("abc", 0, Charset::kUtf8), "");
}

TEST(ScreenTextTest, BarsAreAsLongAsTheyShould) {
  EXPECT_EQ(bar(0.5, 4, Charset::kAscii), "##--");
  EXPECT_EQ(bar(-1, 3, Charset::kAscii), "---");
  EXPECT_EQ(bar(7, 3, Charset::kAscii), "###");
  EXPECT_EQ(bar(0.0 / 0.0 * 1.0, 3, Charset::kAscii), "---");
  EXPECT_EQ(bar(0.5, 3, Charset::kUtf8), "█▌·");
  EXPECT_EQ(column(1, Charset::kAscii), "X");
  EXPECT_EQ(column(0.5, Charset::kUtf8), "▄");
  for (int i = 0; i <= 100; ++i) EXPECT_EQ(cell_count(bar(i / 100.0, 7, Charset::kUtf8)), 7U);
}

}  // namespace
}  // namespace locksley::cli
