// Limits on the output that is read of a process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <csignal>
#include <string>

#include "daemon/process/io/process_pipes.h"
#include "tests/support/seed.h"

namespace locksley::daemon {
namespace {

TEST(TextTailTest, KeepsTheEnd) {
  TextTail tail;
  tail.add("a line\n\n \n");
  EXPECT_EQ(tail.take(), "a line");
  EXPECT_EQ(tail.take(), "") << "taken is taken";
  tail.add(std::string(TextTail::kMost, 'x'));
  EXPECT_EQ(tail.take(), std::string(TextTail::kMost, 'x'));
  tail.add(std::string(TextTail::kMost, 'x') + "y");
  EXPECT_EQ(tail.take(), "…" + std::string(TextTail::kMost - 1, 'x') + "y");
}

TEST(TextTailTest, IsTheSameInWhateverPiecesItCame) {
  auto random = testing::stress_random(3);
  for (int round = 0; round < 200; ++round) {
    std::string all;
    TextTail tail;
    const std::size_t size = random() % (5 * TextTail::kMost);
    while (all.size() < size) {
      const std::string piece(random() % 3000, static_cast<char>('a' + random() % 26));
      all += piece;
      tail.add(piece);
    }
    const std::string wanted =
        all.size() <= TextTail::kMost ? all : "…" + all.substr(all.size() - TextTail::kMost);
    ASSERT_EQ(tail.take(), wanted);
  }
}

class OutputReaderTest : public ::testing::Test {
 protected:
  OutputReaderTest() {
    std::signal(SIGPIPE, SIG_IGN);  // as the daemon does
    auto pipe = make_output_pipe();
    EXPECT_TRUE(pipe);
    write_end = std::move(pipe->write);
    read_end = std::move(pipe->read);
  }
  void write(std::string_view bytes) {
    ASSERT_EQ(::write(write_end.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  asio::io_context io{1};
  OutputReader reader{io.get_executor()};
  Descriptor write_end;
  Descriptor read_end;
  std::string got;
  int ends = 0;
};

TEST_F(OutputReaderTest, GivesWhatComesAndSaysOnceThatItIsOver) {
  reader.begin(
      std::move(read_end), [this](std::string_view bytes) { return got += bytes, true; }, [this] { ++ends; });
  write("one ");
  io.poll();
  EXPECT_EQ(got, "one ");
  write("two");
  write_end.close();
  io.run();
  EXPECT_EQ(got, "one two");
  EXPECT_EQ(ends, 1);
}

TEST_F(OutputReaderTest, ReadsNoMoreThanAPieceAfterEnough) {
  std::size_t calls = 0;
  reader.begin(std::move(read_end), [&calls](std::string_view bytes) {
    ++calls;
    EXPECT_LE(bytes.size(), 64U << 10);
    return false;
  });
  write(std::string(60'000, 'x'));
  io.run();
  EXPECT_EQ(calls, 1U);
  EXPECT_EQ(::write(write_end.get(), "x", 1), -1) << "the other end is closed";
}

TEST_F(OutputReaderTest, FinishTakesWhatIsThereAndWaitsForNobody) {
  reader.begin(
      std::move(read_end), [this](std::string_view bytes) { return got += bytes, true; }, [this] { ++ends; });
  write("last words");
  reader.finish();  // another process still holds the other end
  EXPECT_EQ(got, "last words");
  reader.finish();
  io.poll();
  EXPECT_EQ(ends, 0);
}

TEST_F(OutputReaderTest, MayBeBegunAnewFromWithin) {
  auto second = make_output_pipe();
  ASSERT_TRUE(second);
  ASSERT_EQ(::write(second->write.get(), "second", 6), 6);
  second->write.close();
  reader.begin(std::move(read_end), [&](std::string_view) {
    reader.begin(
        std::move(second->read), [this](std::string_view bytes) { return got += bytes, true; },
        [this] { ++ends; });
    return true;
  });
  write("first");
  io.run();
  EXPECT_EQ(got, "second");
  EXPECT_EQ(ends, 1);
}

TEST(MemoryFileTest, IsReadFromItsBeginning) {
  const auto file = make_memory_file(std::string_view("a\0b", 3));
  ASSERT_TRUE(file);
  char bytes[8];
  EXPECT_EQ(::read(file->get(), bytes, sizeof bytes), 3);
  EXPECT_EQ(std::string_view(bytes, 3), std::string_view("a\0b", 3));
}

}  // namespace
}  // namespace locksley::daemon
