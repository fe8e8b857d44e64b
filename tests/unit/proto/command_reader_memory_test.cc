// What the command reader allocates, and when: it must follow what has arrived, never what was
// announced.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <memory>

#include "proto/command_writer.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley::proto {
namespace {

// Bytes that this process has got from malloc. (Under AddressSanitizer it is always 0, and the
// comparisons hold.)
std::size_t allocated_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::string submit(std::size_t jobs, std::size_t payload_bytes) {
  OutputBuffer out;
  CommandWriter writer(out);
  writer.begin(3 + jobs);
  for (std::string_view word : {"SUBMIT", "echo", "JOBS"}) writer.argument(word);
  for (std::size_t i = 0; i < jobs; ++i)
    writer.argument(std::string(payload_bytes, static_cast<char>('a' + i % 26)));
  return out.to_string();
}

// The one command that `bytes` holds.
Command read_one(CommandReader& reader, std::string_view bytes) {
  Command result;
  feed(reader, bytes, [&] {
    Command command;
    if (reader.next(command) == ReadStatus::kComplete) result = std::move(command);
  });
  return result;
}

TEST(CommandReaderMemoryTest, AnAnnouncedBulkAllocatesNothingInAdvance) {
  const std::size_t before = allocated_bytes();
  CommandReader reader;
  Transcript transcript;
  read_into(reader, "*2\r\n$4\r\nECHO\r\n$536870912\r\n", transcript);
  static_cast<void>(reader.prepare());
  EXPECT_LE(reader.memory_bytes(), 2 * CommandReader::kBlockBytes);
  EXPECT_LE(allocated_bytes(), before + 3 * CommandReader::kBlockBytes);
}

TEST(CommandReaderMemoryTest, AHalfSentBulkHoldsAtMostFourTimesWhatHasArrived) {
  CommandReader reader;
  Transcript transcript;
  read_into(reader, "*2\r\n$4\r\nECHO\r\n$536870912\r\n", transcript);
  const std::string piece(64 * 1024, 'x');
  std::size_t arrived = 0;
  for (int i = 0; i < 200; ++i) {
    read_into(reader, piece, transcript);
    arrived += piece.size();
    ASSERT_LE(reader.memory_bytes(), 2 * CommandReader::kBlockBytes + 4 * arrived);
    ASSERT_GE(reader.buffered_bytes(), arrived);
    ASSERT_EQ(reader.awaited_bytes(), 536'870'912 - arrived);
  }
}

TEST(CommandReaderMemoryTest, TwoThousandMillionAnnouncedArgumentsAllocateNothingInAdvance) {
  const std::size_t before = allocated_bytes();
  CommandReader reader;
  Transcript transcript;
  read_into(reader, "*2147483647\r\n$4\r\nECHO\r\n", transcript);
  EXPECT_LE(reader.memory_bytes(), 2 * CommandReader::kFirstBlockBytes);
  EXPECT_LE(allocated_bytes(), before + 4 * CommandReader::kFirstBlockBytes);
  EXPECT_FALSE(reader.is_idle());
}

TEST(CommandReaderMemoryTest, AMillionJobsCostAtMostSixteenBytesEachBesideTheirPayload) {
  constexpr std::size_t kJobs = 1'000'000;
  CommandReader reader;
  const Command command = read_one(reader, submit(kJobs, 32));
  ASSERT_EQ(command.arguments.size(), kJobs + 3);
  EXPECT_EQ(command.arguments.payload_bytes(), kJobs * 32 + 14);
  EXPECT_LE(command.arguments.memory_bytes() - kJobs * 32, 16 * kJobs);
  EXPECT_EQ(command.arguments[3], std::string(32, 'a'));
  EXPECT_EQ(command.arguments[kJobs + 2], std::string(32, static_cast<char>('a' + (kJobs - 1) % 26)));
}

TEST(CommandReaderMemoryTest, LargePayloadsWasteLittleOfTheirBlocks) {
  for (const std::size_t payload : {100'000u, 300'000u, 600'000u, 1'048'576u, 5'000'000u}) {
    CommandReader reader;
    const std::size_t jobs = 20'000'000 / payload;
    const Command command = read_one(reader, submit(jobs, payload));
    ASSERT_EQ(command.arguments.size(), jobs + 3);
    EXPECT_LE(command.arguments.memory_bytes(), jobs * payload * 5 / 4 + 2 * CommandReader::kBlockBytes)
        << payload;
  }
}

TEST(CommandReaderMemoryTest, ALoopOverSmallCommandsDoesNotAllocate) {
  CommandReader reader;
  Command command;
  const auto run = [&] {
    std::size_t commands = 0;
    feed(reader, "*2\r\n$6\r\nSTATUS\r\n$1\r\nx\r\nPING\r\n", [&] {
      while (reader.next(command) == ReadStatus::kComplete) ++commands;
    });
    return commands;
  };
  ASSERT_EQ(run(), 2u);
  const std::byte* const first = reader.prepare().data();
  const std::size_t before = allocated_bytes();
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(run(), 2u);
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_EQ(reader.prepare().data(), first) << "the same block is used again from its start";
}

TEST(CommandReaderMemoryTest, AnIdleReaderGivesItsBlockBack) {
  CommandReader reader;
  Transcript transcript;
  read_into(reader, "PING\r\n", transcript);
  EXPECT_TRUE(reader.is_idle());
  reader.release();
  EXPECT_EQ(reader.memory_bytes(), 0u);
  read_into(reader, "*1\r\n$4\r\nPI", transcript);
  EXPECT_FALSE(reader.is_idle());
  reader.release();
  EXPECT_GT(reader.memory_bytes(), 0u) << "half a command is kept";
  read_into(reader, "NG\r\n", transcript);
  EXPECT_EQ(transcript.commands.size(), 2u);
}

// Puts the bytes, all that has come, into the reader.
void take_all(CommandReader& reader, std::string_view bytes) {
  const std::span<std::byte> space = reader.prepare_for(bytes.size());
  ASSERT_GE(space.size(), bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  reader.commit(bytes.size());
}

TEST(CommandReaderMemoryTest, OneShortCommandAtATimeTakesASmallBlock) {
  CommandReader reader;
  Command command;
  take_all(reader, "PING\r\n");
  ASSERT_EQ(reader.next(command), ReadStatus::kComplete);
  EXPECT_LE(reader.memory_bytes(), CommandReader::kSmallBlockBytes + 256);  // and the slices of a PING
}

TEST(CommandReaderMemoryTest, WhatGoesOnBehindASmallBlockIsOneCommand) {
  CommandReader reader;
  const std::string bytes = submit(100, 100);
  take_all(reader, std::string_view(bytes).substr(0, 200));
  const Command command = read_one(reader, std::string_view(bytes).substr(200));
  ASSERT_EQ(command.arguments.size(), 103u);
  EXPECT_EQ(command.arguments[3], std::string(100, 'a'));
  EXPECT_EQ(command.arguments[102], std::string(100, static_cast<char>('a' + 99 % 26)));
}

TEST(CommandReaderMemoryTest, MoreThanFitsIntoASmallBlockHasRoom) {
  CommandReader reader;
  const std::string bytes = submit(1, 5'000);
  take_all(reader, bytes);
  Command command;
  ASSERT_EQ(reader.next(command), ReadStatus::kComplete);
  EXPECT_EQ(command.arguments[3], std::string(5'000, 'a'));
}

TEST(CommandReaderMemoryTest, TheFirstBlockIsSmallAndFullReadsMakeBlocksGrow) {
  CommandReader reader;
  EXPECT_LE(reader.prepare().size(), CommandReader::kFirstBlockBytes);
  std::vector<Command> kept;
  feed(reader, submit(200'000, 32), [&] {
    Command command;
    if (reader.next(command) == ReadStatus::kComplete) kept.push_back(std::move(command));
  });
  ASSERT_EQ(kept.size(), 1u);
  static_cast<void>(reader.prepare(CommandReader::kBlockBytes / 2));
  EXPECT_GE(reader.prepare().size(), CommandReader::kBlockBytes / 2);
}

TEST(CommandReaderMemoryTest, BlocksStaySmallBeforeAuthentication) {
  CommandReader reader;
  Transcript transcript;
  std::string pings;
  for (int i = 0; i < 400'000; ++i) pings += "PING\r\n";
  read_into(reader, pings, transcript);
  constexpr std::size_t kSmall = CommandReader::kFirstBlockBytes + 1024;  // and the slices of a PING
  EXPECT_GT(reader.memory_bytes(), kSmall) << "blocks grow";
  reader.set_limits(Limits::before_authentication());
  for (int i = 0; i < 10; ++i) {
    reader.release();
    read_into(reader, pings, transcript);
    EXPECT_LE(reader.memory_bytes(), kSmall);
  }
  const std::size_t argument = Limits::kUnauthenticatedBulkBytes;
  read_into(reader, "*10\r\n", transcript);
  for (int i = 0; i < 10; ++i) {
    read_into(reader, "$16384\r\n" + std::string(argument, 'x'), transcript);
    if (i != 9) read_into(reader, "\r\n", transcript);
  }
  EXPECT_FALSE(transcript.error.has_value());
  EXPECT_LE(reader.memory_bytes(), 10 * (argument + 2 * CommandReader::kMinimumRead));
}

TEST(CommandReaderMemoryTest, AKeptCommandIsNotOverwrittenByLaterOnes) {
  CommandReader reader;
  std::vector<Command> kept;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = "value-" + std::to_string(i);
    kept.push_back(read_one(reader, "ECHO " + text + "\r\n"));
  }
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(kept[static_cast<std::size_t>(i)].arguments[1], "value-" + std::to_string(i));
  }
}

TEST(CommandReaderMemoryTest, ACommandOutlivesItsReader) {
  auto reader = std::make_unique<CommandReader>();
  const Command command = read_one(*reader, submit(100'000, 20));
  reader.reset();
  EXPECT_EQ(command.arguments[100'002], std::string(20, static_cast<char>('a' + 99'999 % 26)));
}

}  // namespace
}  // namespace locksley::proto
