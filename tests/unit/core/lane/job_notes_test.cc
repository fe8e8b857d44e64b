#include "core/lane/job_notes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/batch/handler.h"

namespace locksley {
namespace {

class JobNotesTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make() {
    return std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  std::shared_ptr<Batch> batch = make(), other = make();
  JobNotes notes{1'000};
};

TEST_F(JobNotesTest, TheLastNoteOfAJobIsKept) {
  EXPECT_TRUE(notes.set(*batch, 7, "one"));
  EXPECT_TRUE(notes.set(*batch, 7, "two"));
  ASSERT_NE(notes.find(*batch, 7), nullptr);
  EXPECT_EQ(*notes.find(*batch, 7), "two");
  EXPECT_EQ(notes.find(*batch, 8), nullptr);
  EXPECT_EQ(notes.find(*other, 7), nullptr);
}

TEST_F(JobNotesTest, AJobWithANoteIsAlone) {
  EXPECT_EQ(notes.alone(*batch, {0, 10}), (IndexRange{0, 10}));
  notes.set(*batch, 4, "x");
  EXPECT_EQ(notes.alone(*batch, {0, 10}), (IndexRange{0, 4}));
  EXPECT_EQ(notes.alone(*batch, {4, 10}), (IndexRange{4, 5}));
  EXPECT_EQ(notes.alone(*batch, {5, 10}), (IndexRange{5, 10}));
  EXPECT_EQ(notes.alone(*batch, {0, 4}), (IndexRange{0, 4}));
  EXPECT_EQ(notes.alone(*other, {0, 10}), (IndexRange{0, 10}));
}

TEST_F(JobNotesTest, NotesOfJobsThatEndedWellAreForgotten) {
  for (const std::uint64_t index : {1U, 3U, 5U}) notes.set(*batch, index, "x");
  notes.forget(*batch, {2, 4});
  EXPECT_EQ(notes.alone(*batch, {2, 9}), (IndexRange{2, 5}));
  notes.forget(*batch, {0, 9});
  EXPECT_EQ(notes.bytes(), 0U);
}

TEST_F(JobNotesTest, TextIsBounded) {
  EXPECT_FALSE(notes.set(*batch, 0, std::string(901, 'x')));
  EXPECT_TRUE(notes.set(*batch, 0, std::string(900, 'x')));
  EXPECT_FALSE(notes.set(*batch, 1, ""));
  EXPECT_FALSE(notes.set(*batch, 0, std::string(901, 'y'))) << "and the job has none now";
  EXPECT_EQ(notes.find(*batch, 0), nullptr);
}

TEST_F(JobNotesTest, NotesOfBatchesThatAreGoneMakeRoom) {
  notes.set(*other, 0, std::string(900, 'x'));
  EXPECT_FALSE(notes.set(*batch, 0, "x"));
  other.reset();
  EXPECT_TRUE(notes.set(*batch, 0, std::string(900, 'x')));
}

}  // namespace
}  // namespace locksley
