#include "daemon/cli/row_sink.h"

#include <gmock/gmock.h>

namespace locksley::cli {
namespace {

TEST(CliRowsTest, AFailureIsOneLineThatATerminalCanShow) {
  EXPECT_EQ(failure_line({17, "error", "no such \x1b file\n"}), "job 17: error: no such ? file");
  EXPECT_EQ(failure_line({17, "error", "exit status 1:\ta.py\r\nline 2\n\n"}),
            "job 17: error: exit status 1: a.py\\nline 2");
  EXPECT_EQ(failure_line({17, "error", "bad"}, "a\nb.jpg"), "a?b.jpg (job 17): error: bad");
  EXPECT_EQ(
      failure_line({17, "error", "KeyError: 'a'\t{\"exception\": \"KeyError\", \"traceback\": \"T\\n\"}"}),
      "job 17: error: KeyError: 'a'");
}

}  // namespace
}  // namespace locksley::cli
