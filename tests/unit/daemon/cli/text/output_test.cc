// Outputs: in order, and to a reader that may be slow or go away.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>

#include "daemon/cli/context/event.h"
#include "daemon/cli/text/ordered_outputs.h"
#include "daemon/cli/text/output.h"
#include "tests/unit/daemon/cli/pipe.h"

namespace locksley::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// Adds the indexes in a random order and expects them in order, with the outputs that belong to
// them.
void expect_ordered(std::size_t memory_bytes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<std::uint64_t> indexes(2000);
  for (std::size_t i = 0; i < indexes.size(); ++i) indexes[i] = i;
  std::ranges::shuffle(indexes, random);
  const auto output_of = [](std::uint64_t index) {
    return std::string(index % 50, 'x') + std::to_string(index);
  };
  std::vector<std::string> shown;
  OrderedOutputs ordered(memory_bytes, [&](const client::ResultRow& row) {
    EXPECT_EQ(row.index, shown.size());
    EXPECT_EQ(row.status, row.index % 3 == 0 ? "error" : "ok");
    shown.emplace_back(row.output);
  });
  for (const std::uint64_t index : indexes) {
    ordered.add({index, index % 3 == 0 ? "error" : "ok", output_of(index)});
    EXPECT_LE(ordered.held_in_memory_bytes(), memory_bytes);
  }
  ordered.finish();
  ASSERT_EQ(shown.size(), indexes.size());
  for (std::size_t i = 0; i < shown.size(); ++i) EXPECT_EQ(shown[i], output_of(i));
  EXPECT_EQ(ordered.held(), 0U);
  EXPECT_EQ(ordered.held_in_memory_bytes(), 0U);
}

TEST(CliOrderedOutputsTest, AnyOrderComesOutInOrderFromMemory) { expect_ordered(std::size_t{1} << 20); }

TEST(CliOrderedOutputsTest, AnyOrderComesOutInOrderFromTheFile) { expect_ordered(500); }

TEST(CliOrderedOutputsTest, FinishShowsWhatStandsBehindAGap) {
  std::vector<std::uint64_t> shown;
  OrderedOutputs ordered(1000, [&](const client::ResultRow& row) { shown.push_back(row.index); });
  ordered.add({4, "ok", ""});
  ordered.add({0, "ok", ""});
  ordered.add({2, "ok", ""});
  EXPECT_THAT(shown, ElementsAre(0));
  ordered.finish();
  EXPECT_THAT(shown, ElementsAre(0, 2, 4));
}

TEST(CliOutputTest, AReaderThatWentAwayIsRemembered) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_IGN), SIG_ERR);
  Pipe pipe;
  Event stop;
  ::close(pipe.ends[0]);
  pipe.ends[0] = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  Output output(pipe.ends[1], stop.fd());
  output.append("x");
  output.flush();
  EXPECT_EQ(output.error(), EPIPE);
}

TEST(CliOutputTest, AFullPipeDoesNotHoldUpAnInterruptAndNothingIsLost) {
  Pipe pipe;
  Event stop;
  Output output(pipe.ends[1], stop.fd());
  stop.raise();
  const std::string bytes(300'000, 'y');  // more than a pipe holds
  output.append(bytes);
  EXPECT_EQ(output.error(), 0);
  std::string read;
  std::vector<char> buffer(65'536);
  while (read.size() < bytes.size()) {
    const ssize_t count = ::read(pipe.ends[0], buffer.data(), buffer.size());
    ASSERT_GT(count, 0);
    read.append(buffer.data(), static_cast<std::size_t>(count));
    output.flush();
  }
  EXPECT_EQ(read, bytes);
}

TEST(CliOutputTest, AnOutputThatWasStoppedDoesNotWaitForItsReaderAtItsEnd) {
  Pipe pipe;
  Event stop;
  {
    Output output(pipe.ends[1], stop.fd());
    stop.raise();
    output.append(std::string(300'000, 'y'));
    EXPECT_FALSE(output.is_empty());
    eventfd_t taken = 0;
    ASSERT_EQ(::eventfd_read(stop.fd(), &taken), 0);  // as a caller that takes the signal
  }
}

}  // namespace
}  // namespace locksley::cli
