// top: connects the model, the keys, the poller and the terminal; without a terminal it prints
// text.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/job.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/output.h"
#include "daemon/cli/text/table.h"
#include "daemon/cli/top/control.h"
#include "daemon/cli/top/model.h"
#include "daemon/cli/top/poller.h"
#include "daemon/cli/top/terminal.h"

namespace locksley::cli {
namespace {

// How long a message stays on the screen: two or three glances. Guess.
constexpr std::chrono::seconds kSaidFor{5};

TopOrder order_named(std::string_view name) {
  const auto found = std::ranges::find(kTopOrderNames, name);
  return static_cast<TopOrder>(found - std::begin(kTopOrderNames));
}

// One `locksley top`, on a screen or as printed text: both take the same news.
class Top {
 public:
  Top(Context& context, const TopArguments& arguments, Charset charset)
      : context_(context),
        arguments_(arguments),
        charset_(charset),
        control_(client::text_of(context.addresses()), order_named(arguments.order), arguments.filter) {}

  // Waits for the first snapshot. If the daemon cannot be reached at all, that is an error like any
  // other command's. Returns the exit status after such an error or a signal; none: there is a
  // snapshot.
  std::optional<int> begin(TopPoller& poller);
  int show(TopPoller& poller, Signals& of_terminal);
  int print(TopPoller& poller);

 private:
  // Returns whether there are new figures.
  bool take(TopPoller::News news);
  bool press_all(TopTerminal& terminal, const TopPaper& paper, TopPoller& poller);
  TopPaper paper_to_print() const;

  Context& context_;
  const TopArguments& arguments_;
  const Charset charset_;
  TopModel model_;
  TopControl control_;
  Instant said_at_{};
};

// Waits until one of the descriptors can be read; returns the signal that came, if one did.
template <std::size_t N>
std::optional<int> wait_for(Context& context, pollfd (&entries)[N]) {
  ::poll(entries, N, -1);
  return context.signals().take();
}

std::optional<int> Top::begin(TopPoller& poller) {
  for (;;) {
    pollfd entries[] = {{.fd = poller.fd(), .events = POLLIN, .revents = 0},
                        {.fd = context_.signals().fd(), .events = POLLIN, .revents = 0}};
    if (const auto signal = wait_for(context_, entries)) return 128 + *signal;
    for (TopPoller::News& news : poller.take()) {
      if (const auto* lost = std::get_if<TopPoller::Lost>(&news)) return context_.fail(lost->error);
      if (take(std::move(news))) return {};
    }
  }
}

bool Top::take(TopPoller::News news) {
  if (auto* snapshot = std::get_if<TopSnapshot>(&news)) {
    control_.connected(snapshot->address);
    model_.take(std::move(*snapshot));
    control_.take(model_.figures());
    if (now() - said_at_ > kSaidFor) control_.fall_silent();
    return true;
  }
  if (auto* lost = std::get_if<TopPoller::Lost>(&news)) {
    model_.forget_rates();
    control_.lost(lost->error.message);
  } else {
    control_.say(std::get<TopAnswer>(std::move(news)));
    said_at_ = now();
  }
  return false;
}

// False: the user has quit.
bool Top::press_all(TopTerminal& terminal, const TopPaper& paper, TopPoller& poller) {
  while (const auto key = terminal.read_key()) {
    TopControl::Effect effect = control_.press(*key, model_.figures(), paper);
    said_at_ = now();
    if (effect.quits) return false;
    if (effect.action) poller.act(std::move(*effect.action));
  }
  return true;
}

int Top::show(TopPoller& poller, Signals& of_terminal) {
  TopTerminal terminal;
  for (;;) {
    const TopPaper paper{.size = terminal.size(), .charset = charset_};
    const TopFrame frame = draw_top(model_.figures(), control_.screen(), paper);
    terminal.draw(frame);
    poller.look_at(control_.demand(frame));
    pollfd entries[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                        {.fd = poller.fd(), .events = POLLIN, .revents = 0},
                        {.fd = of_terminal.fd(), .events = POLLIN, .revents = 0},
                        {.fd = context_.signals().fd(), .events = POLLIN, .revents = 0}};
    if (const auto signal = wait_for(context_, entries)) return 128 + *signal;
    while (const auto signal = of_terminal.take()) {
      if (*signal == SIGTSTP) {
        terminal.suspend();
      } else {
        terminal.resized();
      }
    }
    for (TopPoller::News& news : poller.take()) take(std::move(news));
    if (!press_all(terminal, paper, poller)) return daemon::kExitOk;
    // The terminal went away.
    if ((entries[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return 128 + SIGHUP;
  }
}

TopPaper Top::paper_to_print() const {
  constexpr std::size_t kColumns = 120;  // without COLUMNS: enough for names and reasons in full
  constexpr std::size_t kRows = 1000;    // more than there are lines to print
  std::size_t columns = 0;
  if (const char* const text = std::getenv("COLUMNS"); text != nullptr)
    std::from_chars(text, text + std::char_traits<char>::length(text), columns);
  if (columns < 20 || columns > 1000) columns = kColumns;
  return {.size = {.rows = kRows, .columns = columns}, .charset = charset_, .is_paper = true};
}

// Prints every snapshot but the first, which has no rates.
int Top::print(TopPoller& poller) {
  Output output(STDOUT_FILENO, context_.signals().fd());
  const TopPaper paper = paper_to_print();
  poller.look_at(control_.demand(draw_top(model_.figures(), control_.screen(), paper)));
  std::string lost;
  for (std::uint64_t printed = 0; !arguments_.frames || printed < *arguments_.frames;) {
    pollfd entries[] = {{.fd = poller.fd(), .events = POLLIN, .revents = 0},
                        {.fd = context_.signals().fd(), .events = POLLIN, .revents = 0}};
    if (const auto signal = wait_for(context_, entries)) return 128 + *signal;
    for (TopPoller::News& news : poller.take()) {
      const bool is_new = take(std::move(news));
      if (const std::string& why = control_.screen().lost; why != std::exchange(lost, why) && !why.empty())
        std::fprintf(stderr, "locksley: %s; trying again\n", printable(why).c_str());
      if (!is_new || !model_.figures().has_rates || (arguments_.frames && printed == *arguments_.frames))
        continue;
      const TopFrame frame = draw_top(model_.figures(), control_.screen(), paper);
      poller.look_at(control_.demand(frame));
      output.append((printed++ == 0 ? "" : "\n") + local_time(unix_milliseconds()) + "\n" + frame.text());
      output.flush();
      if (output.error() != 0) return failed_output(output.error());
    }
  }
  return daemon::kExitOk;
}

}  // namespace

int run_top(Context& context, const TopArguments& arguments) {
  if (context.json()) {
    std::fputs("locksley: top is for people; programs ask list, workers, tenants and info for --json\n",
               stderr);
    return daemon::kExitUsage;
  }
  Top top(context, arguments, charset_of_locale());
  const bool is_screen = !arguments.frames && TopTerminal::is_there();
  // Made before the poller's thread starts, so that this thread has the signals blocked as well.
  std::optional<Signals> of_terminal;
  if (is_screen) of_terminal.emplace({SIGWINCH, SIGTSTP, SIGCONT});
  TopPoller poller(context.addresses(), arguments.interval);
  if (const auto failed = top.begin(poller)) return *failed;
  return is_screen ? top.show(poller, *of_terminal) : top.print(poller);
}

}  // namespace locksley::cli
