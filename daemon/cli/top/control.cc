#include "daemon/cli/top/control.h"

#include <algorithm>
#include <utility>

#include "daemon/cli/text/number_text.h"
#include "proto/number.h"

namespace locksley::cli {

using KeyName = TopKey::Name;
using ActionKind = TopAction::Kind;
using ScreenPage = TopScreen::Page;

namespace {

constexpr std::uint64_t kMostWeight = 1000;
constexpr std::size_t kLongestTyped = 200;

std::vector<std::string> command_of(ActionKind kind, const TopBatch& batch) {
  const std::string& wire = batch.name.wire;
  switch (kind) {
    case ActionKind::kPause:
      return {"PAUSE", wire};
    case ActionKind::kResume:
      return {"RESUME", wire};
    case ActionKind::kWeight:
      return {"WEIGHT", wire};
    case ActionKind::kCancel:
      return {"CANCEL", wire};
    case ActionKind::kRetry:
      break;
  }
  // With ROUND, a RETRY that is sent again, after a lost reply, has no second effect.
  return {"RETRY", wire, "ROUND", std::to_string(batch.status.retry_rounds)};
}

std::string jobs_text(std::int64_t count) {
  return with_commas(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0))) +
         (count == 1 ? " job" : " jobs");
}

// The row to which a key leads from row `from`. The rows are 0 to `last`; a page has `page` of
// them.
std::size_t moved(KeyName key, std::size_t from, std::size_t page, std::size_t last) {
  switch (key) {
    case KeyName::kUp:
      return from - std::min<std::size_t>(from, 1);
    case KeyName::kDown:
      return std::min(from + 1, last);
    case KeyName::kPageUp:
      return from - std::min(from, page);
    case KeyName::kPageDown:
      return std::min(from + page, last);
    case KeyName::kHome:
      return 0;
    default:
      return last;
  }
}

}  // namespace

TopAnswer to_answer(const TopAction& action, const proto::Reply& reply) {
  if (reply.is_error()) return {action.batch + ": " + reply.text, true};
  const std::string count = jobs_text(reply.to_integer().value_or(0));
  switch (action.kind) {
    case ActionKind::kPause:
      return {"paused " + action.batch};
    case ActionKind::kResume:
      return {"resumed " + action.batch};
    case ActionKind::kWeight:
      return {"weight " + action.command.back() + " for " + action.batch};
    case ActionKind::kCancel:
      return {"cancelled " + action.batch + ": " + count + " will not run"};
    case ActionKind::kRetry:
      break;
  }
  return {"queued " + count + " of " + action.batch + " again"};
}

TopControl::TopControl(std::string address, TopOrder order, std::string filter)
    : screen_{.address = std::move(address), .order = order, .filter = std::move(filter)} {}

std::vector<const TopBatch*> TopControl::chosen(const TopFigures& figures) const {
  return chosen_batches(figures, screen_.order, screen_.filter);
}

const TopBatch* TopControl::selected(const TopFigures& figures) const {
  for (const TopBatch* batch : chosen(figures)) {
    if (batch->name.key == screen_.selected) return batch;
  }
  return nullptr;
}

void TopControl::take(const TopFigures& figures) {
  if (screen_.selected.empty() || screen_.page != ScreenPage::kBatches) return;
  const auto batches = chosen(figures);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i]->name.key != screen_.selected) continue;
    at_ = i;
    return;
  }
  screen_.selected.clear();
}

void TopControl::say(TopAnswer answer) {
  screen_.message = std::move(answer.text);
  screen_.is_error = answer.is_error;
}

TopDemand TopControl::demand(const TopFrame& drawn) const {
  TopDemand demand;
  if (screen_.page == ScreenPage::kBatch) {
    demand.detail = name_;
    demand.explained = {name_};
  } else {
    demand.explained = drawn.shown;
    if (demand.explained.size() > kMostExplained) demand.explained.resize(kMostExplained);
  }
  return demand;
}

TopControl::Effect TopControl::press(const TopKey& key, const TopFigures& figures, const TopPaper& paper) {
  if (question_ != Question::kNone) return type(key);
  fall_silent();
  switch (key.name) {
    case KeyName::kLetter:
      if (key.letter == "j") {
        move(KeyName::kDown, figures, paper);
      } else if (key.letter == "k") {
        move(KeyName::kUp, figures, paper);
      } else if (key.letter == " ") {
        move(KeyName::kPageDown, figures, paper);
      } else if (key.letter.size() == 1) {
        return command(key.letter[0], figures);
      }
      return {};
    case KeyName::kEnter:
      if (screen_.page != ScreenPage::kBatches) return {};
      if (selected(figures) == nullptr) {
        say({"select a batch first, with the arrows", true});
      } else {
        show(ScreenPage::kBatch);
      }
      return {};
    case KeyName::kEscape:
    case KeyName::kErase:
      show(ScreenPage::kBatches);
      return {};
    case KeyName::kUp:
    case KeyName::kDown:
    case KeyName::kPageUp:
    case KeyName::kPageDown:
    case KeyName::kHome:
    case KeyName::kEnd:
      move(key.name, figures, paper);
      return {};
    case KeyName::kOther:
      break;
  }
  return {};
}

void TopControl::show(ScreenPage page) {
  screen_.page = page;
  screen_.scrolled = 0;
}

void TopControl::move(KeyName key, const TopFigures& figures, const TopPaper& paper) {
  const std::size_t length = page_length(figures, screen_, paper);
  if (screen_.page != ScreenPage::kBatches) {
    const std::size_t rows = paper.size.rows > 3 ? paper.size.rows - 3 : 1;
    const std::size_t last = length > rows ? length - rows : 0;
    screen_.scrolled = moved(key, std::min(screen_.scrolled, last), rows, last);
    return;
  }
  const auto batches = chosen(figures);
  if (batches.empty()) return;
  const std::size_t last = batches.size() - 1;
  const std::size_t from = std::min(at_, last);
  // The first step selects the batch that stands there.
  const bool is_first = (key == KeyName::kUp || key == KeyName::kDown) && selected(figures) == nullptr;
  at_ = is_first ? from : moved(key, from, std::max<std::size_t>(length, 1), last);
  name_ = batches[at_]->name;
  screen_.selected = name_.key;
}

TopControl::Effect TopControl::command(char letter, const TopFigures& figures) {
  const auto turn_order = [&](std::size_t by) {
    screen_.order = static_cast<TopOrder>((static_cast<std::size_t>(screen_.order) + by) % kTopOrders);
    say({"sorted by " + std::string(to_string(screen_.order))});
  };
  switch (letter) {
    case 'q':
      return {.quits = true};
    case 'h':
    case '?':
      show(screen_.page == ScreenPage::kHelp ? ScreenPage::kBatches : ScreenPage::kHelp);
      return {};
    case 's':
      turn_order(1);
      return {};
    case 'S':
      turn_order(kTopOrders - 1);
      return {};
    case '/':
      filter_before_ = screen_.filter;
      ask(Question::kFilter, "only batches with:");
      screen_.typed = screen_.filter;
      return {};
    case 'p':
    case 'w':
    case 'c':
    case 'r':
      break;
    default:
      return {};
  }
  const TopBatch* const batch = selected(figures);
  if (!figures.server.may("control")) {
    say({"user " + figures.server.user + " has no permission to change batches", true});
  } else if (batch == nullptr) {
    say({screen_.page == ScreenPage::kBatch ? "the batch is not listed any more"
                                            : "select a batch first, with the arrows",
         true});
  } else if (letter == 'r') {
    if (batch->status.failed > 0) return act(ActionKind::kRetry, *batch);
    say({batch->title() + " has no failed jobs", true});
  } else if (batch->status.is_over()) {
    say({batch->title() + " is over", true});
  } else if (letter == 'p') {
    return act(batch->is_paused() ? ActionKind::kResume : ActionKind::kPause, *batch);
  } else if (letter == 'w') {
    asked_ = act(ActionKind::kWeight, *batch).action;
    ask(Question::kWeight,
        "weight of " + batch->title() + ", 1 to 1000, now " + std::to_string(batch->status.weight) + ":");
  } else {
    asked_ = act(ActionKind::kCancel, *batch).action;
    ask(Question::kCancel, "cancel " + batch->title() + "? y or n:");
  }
  return {};
}

TopControl::Effect TopControl::act(ActionKind kind, const TopBatch& batch) {
  return {.action = TopAction{kind, batch.title(), command_of(kind, batch)}};
}

void TopControl::ask(Question question, std::string prompt) {
  question_ = question;
  screen_.prompt = std::move(prompt);
  screen_.typed.clear();
}

void TopControl::leave_question() {
  question_ = Question::kNone;
  screen_.prompt.clear();
  screen_.typed.clear();
}

TopControl::Effect TopControl::type(const TopKey& key) {
  switch (key.name) {
    case KeyName::kEscape:
      if (question_ == Question::kFilter) screen_.filter = filter_before_;
      leave_question();
      return {};
    case KeyName::kEnter:
      return answer();
    case KeyName::kErase:
      while (!screen_.typed.empty()) {
        const auto last = static_cast<unsigned char>(screen_.typed.back());
        screen_.typed.pop_back();
        if ((last & 0xC0U) != 0x80U) break;
      }
      break;
    case KeyName::kLetter:
      if (screen_.typed.size() < kLongestTyped) screen_.typed += key.letter;
      // One letter is the answer.
      if (question_ == Question::kCancel) return answer();
      break;
    default:
      return {};
  }
  if (question_ == Question::kFilter) screen_.filter = screen_.typed;
  return {};
}

TopControl::Effect TopControl::answer() {
  const std::string typed = screen_.typed;
  const Question question = question_;
  leave_question();
  if (question == Question::kFilter) return {};
  if (question == Question::kCancel) {
    if (typed == "y" || typed == "Y") return {.action = std::exchange(asked_, {})};
    say({"not cancelled"});
    return {};
  }
  const auto weight = proto::parse_uint64(typed);
  if (!weight || *weight < 1 || *weight > kMostWeight) {
    say({"a weight is a number from 1 to 1000, not \"" + typed + "\"", true});
    return {};
  }
  asked_->command.push_back(typed);
  return {.action = std::exchange(asked_, {})};
}

}  // namespace locksley::cli
