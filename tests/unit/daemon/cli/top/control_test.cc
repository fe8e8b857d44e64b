// top's keys: what is selected, asked and told to the daemon.

#include <gmock/gmock.h>

#include "daemon/cli/top/control.h"
#include "tests/unit/daemon/cli/top/support.h"

namespace locksley::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Name = TopKey::Name;
using Page = TopScreen::Page;
using testing::model_of;
using testing::snapshot_at;

class TopControlTest : public ::testing::Test {
 protected:
  TopControl::Effect press(Name name) { return control_.press({name}, model_.figures(), kPaper); }
  // The effect of the last letter.
  TopControl::Effect type(const std::string& letters) {
    TopControl::Effect effect;
    for (const char letter : letters) {
      effect = control_.press({Name::kLetter, std::string(1, letter)}, model_.figures(), kPaper);
    }
    return effect;
  }
  void take(TopSnapshot snapshot) {
    model_.take(std::move(snapshot));
    control_.take(model_.figures());
  }
  const TopScreen& screen() const { return control_.screen(); }

  static constexpr TopPaper kPaper{.size = {.rows = 24, .columns = 80}};
  TopModel model_ = model_of();
  TopControl control_{"127.0.0.1:7770", TopOrder::kNewest, ""};
};

TEST_F(TopControlTest, ArrowsAndLettersSelectUpToBothEnds) {
  EXPECT_EQ(screen().selected, "");
  press(Name::kDown);
  EXPECT_EQ(screen().selected, "anna/nightly");
  type("j");
  EXPECT_EQ(screen().selected, "bert/thumbs");
  type("kkk");
  EXPECT_EQ(screen().selected, "anna/nightly");
  press(Name::kEnd);
  press(Name::kDown);
  EXPECT_EQ(screen().selected, "anna/gone");
  press(Name::kUp);
  EXPECT_EQ(screen().selected, "anna/old");
  press(Name::kPageUp);
  EXPECT_EQ(screen().selected, "anna/nightly");
  press(Name::kPageDown);
  EXPECT_EQ(screen().selected, "anna/gone");
  press(Name::kHome);
  EXPECT_EQ(screen().selected, "anna/nightly");
}

TEST_F(TopControlTest, TheSelectedBatchStaysSoWhereverItMoves) {
  type("jj");
  TopSnapshot shot = snapshot_at(2);
  shot.batches.push_back(testing::batch_status("newer", "running", 5, 0, 9000));
  take(std::move(shot));
  EXPECT_EQ(screen().selected, "bert/thumbs");
  type("s");
  EXPECT_EQ(screen().selected, "bert/thumbs");
  type("k");
  EXPECT_NE(screen().selected, "bert/thumbs");
}

TEST_F(TopControlTest, ABatchThatGoesIsNotSelectedAndNoOtherIsHit) {
  type("jj");
  TopSnapshot shot = snapshot_at(2);
  std::erase_if(shot.batches, [](const auto& batch) { return batch.id == "thumbs"; });
  take(std::move(shot));
  EXPECT_EQ(screen().selected, "");
  EXPECT_FALSE(type("p").action);
  EXPECT_THAT(screen().message, HasSubstr("select a batch"));
  type("j");
  EXPECT_EQ(screen().selected, "anna/later");  // which now stands where it stood
}

TEST_F(TopControlTest, PauseResumeAndRetryAreSentAtOnce) {
  type("jj");
  EXPECT_THAT(type("p").action->command, ElementsAre("PAUSE", "bert/thumbs"));
  EXPECT_THAT(type("r").action->command, ElementsAre("RETRY", "bert/thumbs", "ROUND", "0"));
  TopSnapshot shot = snapshot_at(2);
  shot.explanations["bert/thumbs"].is_paused = true;
  take(std::move(shot));
  EXPECT_THAT(type("p").action->command, ElementsAre("RESUME", "bert/thumbs"));
}

TEST_F(TopControlTest, CancelAsksAndOnlyYMeansYes) {
  type("j");
  EXPECT_FALSE(type("c").action);
  EXPECT_THAT(screen().prompt, HasSubstr("cancel nightly checksums of everything?"));
  EXPECT_FALSE(type("n").action);
  EXPECT_EQ(screen().message, "not cancelled");
  EXPECT_FALSE(type("cx").action);
  type("c");
  EXPECT_FALSE(press(Name::kEnter).action);
  type("c");
  EXPECT_FALSE(press(Name::kEscape).action);
  EXPECT_EQ(screen().prompt, "");
  EXPECT_THAT(type("cy").action->command, ElementsAre("CANCEL", "anna/nightly"));
}

TEST_F(TopControlTest, AQuestionIsAboutTheBatchThatItWasAskedOf) {
  type("jc");
  TopSnapshot shot = snapshot_at(2);
  std::erase_if(shot.batches, [](const auto& batch) { return batch.id == "nightly"; });
  take(std::move(shot));
  EXPECT_THAT(type("y").action->command, ElementsAre("CANCEL", "anna/nightly"));
}

TEST_F(TopControlTest, AWeightIsTypedAndChecked) {
  type("j");
  type("w70");
  press(Name::kErase);
  EXPECT_EQ(screen().typed, "7");
  EXPECT_THAT(press(Name::kEnter).action->command, ElementsAre("WEIGHT", "anna/nightly", "7"));
  for (const char* wrong : {"w0", "w1001", "w-1", "wq", "w"}) {
    type(wrong);
    EXPECT_FALSE(press(Name::kEnter).action) << wrong;
    EXPECT_TRUE(screen().is_error) << wrong;
  }
}

TEST_F(TopControlTest, AFilterWorksWhileItIsTypedAndEscapeTakesItBack) {
  type("/thu");
  EXPECT_EQ(screen().filter, "thu");
  press(Name::kEnter);
  EXPECT_EQ(screen().filter, "thu");
  type("j");
  EXPECT_EQ(screen().selected, "bert/thumbs");
  type("/q");  // no quitting: it is a letter of the filter
  EXPECT_EQ(screen().filter, "thuq");
  press(Name::kEscape);
  EXPECT_EQ(screen().filter, "thu");
}

TEST_F(TopControlTest, ErasingTakesAWholeLetter) {
  type("/a");
  control_.press({Name::kLetter, "é"}, model_.figures(), kPaper);
  EXPECT_EQ(screen().typed, "aé");
  press(Name::kErase);
  EXPECT_EQ(screen().typed, "a");
}

TEST_F(TopControlTest, WhatMakesNoSenseIsSaidAndNotSent) {
  EXPECT_FALSE(type("p").action);
  EXPECT_THAT(screen().message, HasSubstr("select a batch first"));
  press(Name::kEnter);
  EXPECT_EQ(screen().page, Page::kBatches);
  press(Name::kEnd);  // one that is cancelled
  for (const char* key : {"p", "w", "c"}) {
    EXPECT_FALSE(type(key).action) << key;
    EXPECT_THAT(screen().message, HasSubstr("gone is over")) << key;
  }
  EXPECT_FALSE(type("r").action);
  EXPECT_THAT(screen().message, HasSubstr("no failed jobs"));
}

TEST_F(TopControlTest, WhoMayNotChangeBatchesIsToldSo) {
  TopSnapshot shot = snapshot_at(2);
  shot.server.groups = "submit,read";
  take(std::move(shot));
  type("j");
  for (const char* key : {"p", "w", "c", "r"}) {
    EXPECT_FALSE(type(key).action) << key;
    EXPECT_THAT(screen().message, HasSubstr("user anna has no permission")) << key;
    EXPECT_EQ(screen().prompt, "") << key;
  }
}

TEST_F(TopControlTest, PagesAreEnteredAndLeft) {
  type("j");
  press(Name::kEnter);
  EXPECT_EQ(screen().page, Page::kBatch);
  const TopDemand demand = control_.demand({});
  ASSERT_TRUE(demand.detail);
  EXPECT_EQ(demand.detail->key, "anna/nightly");
  press(Name::kEscape);
  EXPECT_EQ(screen().page, Page::kBatches);
  EXPECT_FALSE(control_.demand({}).detail);
  type("h");
  EXPECT_EQ(screen().page, Page::kHelp);
  type("h");
  EXPECT_EQ(screen().page, Page::kBatches);
  EXPECT_TRUE(type("q").quits);
}

TEST_F(TopControlTest, SortingGoesRoundInBothDirections) {
  type("s");
  EXPECT_EQ(screen().order, TopOrder::kProgress);
  type("SS");
  EXPECT_EQ(screen().order, TopOrder::kTenant);
  for (std::size_t i = 0; i < kTopOrders; ++i) type("s");
  EXPECT_EQ(screen().order, TopOrder::kTenant);
}

TEST_F(TopControlTest, AHandfulOfBatchesIsExplainedHoweverManyAreShown) {
  TopFrame frame;
  frame.shown.resize(1000);
  EXPECT_EQ(control_.demand(frame).explained.size(), 100U);
}

TEST(TopAnswerTest, SaysWhatCameOfIt) {
  proto::Reply number;
  number.type = proto::Reply::Type::kInteger;
  number.integer = 1234;
  TopAction action{TopAction::Kind::kCancel, "nightly", {"CANCEL", "x"}};
  EXPECT_EQ(to_answer(action, number).text, "cancelled nightly: 1,234 jobs will not run");
  action.kind = TopAction::Kind::kRetry;
  number.integer = 1;
  EXPECT_EQ(to_answer(action, number).text, "queued 1 job of nightly again");
  proto::Reply error;
  error.type = proto::Reply::Type::kError;
  error.text = "NOPERM no";
  EXPECT_EQ(to_answer(action, error).text, "nightly: NOPERM no");
  EXPECT_TRUE(to_answer(action, error).is_error);
}

}  // namespace
}  // namespace locksley::cli
