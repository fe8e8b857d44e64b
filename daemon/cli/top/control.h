// From keys to choices and commands of `locksley top`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/top/view.h"
#include "proto/reply.h"

namespace locksley::cli {

// A key that the user has pressed.
struct TopKey {
  enum class Name { kLetter, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kErase, kOther };
  Name name = Name::kOther;
  std::string letter = {};  // of kLetter: the character, in UTF-8
};

// An action that the user wants for a batch.
struct TopAction {
  enum class Kind { kPause, kResume, kWeight, kCancel, kRetry };
  Kind kind;
  std::string batch;  // its title
  std::vector<std::string> command;
};

// The daemon's reply to an action, for people.
struct TopAnswer {
  std::string text;
  bool is_error = false;
};
TopAnswer to_answer(const TopAction& action, const proto::Reply& reply);

// What the keys do: they choose the page and the batch, answer questions, and make actions for the
// daemon. Knows neither a terminal nor a daemon. Used by one thread; nothing blocks.
class TopControl {
 public:
  // `address`: shown until a daemon has answered.
  TopControl(std::string address, TopOrder order, std::string filter);

  const TopScreen& screen() const { return screen_; }

  struct Effect {
    bool quits = false;
    std::optional<TopAction> action = {};
  };
  Effect press(const TopKey& key, const TopFigures& figures, const TopPaper& paper);

  // Takes new figures. A batch that has gone is no longer selected: a key pressed at that moment
  // must not act on another batch.
  void take(const TopFigures& figures);
  // `address`: of the daemon that answered.
  void connected(std::string address) {
    screen_.lost.clear();
    screen_.address = std::move(address);
  }
  void lost(std::string why) { screen_.lost = std::move(why); }
  void say(TopAnswer answer);
  // Removes the message: the user has read it.
  void fall_silent() { screen_.message.clear(); }

  TopDemand demand(const TopFrame& drawn) const;

 private:
  // Guess: as many as a large screen shows, and little work for the daemon.
  static constexpr std::size_t kMostExplained = 100;

  enum class Question { kNone, kFilter, kWeight, kCancel };

  Effect type(const TopKey& key);
  Effect answer();
  Effect command(char letter, const TopFigures& figures);
  Effect act(TopAction::Kind kind, const TopBatch& batch);
  void ask(Question question, std::string prompt);
  void leave_question();
  void move(TopKey::Name key, const TopFigures& figures, const TopPaper& paper);
  void show(TopScreen::Page page);
  std::vector<const TopBatch*> chosen(const TopFigures& figures) const;
  const TopBatch* selected(const TopFigures& figures) const;

  TopScreen screen_;
  TopBatchName name_;   // of the selected batch
  std::size_t at_ = 0;  // its place, or its last place
  Question question_ = Question::kNone;
  std::optional<TopAction> asked_;  // the action that an answer confirms
  std::string filter_before_;
};

}  // namespace locksley::cli
