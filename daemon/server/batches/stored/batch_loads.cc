#include "daemon/server/batches/stored/batch_loads.h"

#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/time.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

bool BatchLoads::are_wanted() const { return parts_.store != nullptr && parts_.store->is_on_network(); }

void BatchLoads::load(std::uint64_t sequence, OnLoad on_load) {
  if (auto may_load = parts_.store->may_load(); !may_load) return on_load(may_load);
  const auto [waiting, is_first] = waiting_.try_emplace(sequence);
  waiting->second.push_back(std::move(on_load));
  if (!is_first) return;
  const RetainedBatch* const retained = parts_.registry.retained().find(sequence);
  const Reader::User owner = retained == nullptr ? Reader::kNoUser : retained->tenant;
  parts_.registry.loaded().begin(sequence);
  parts_.store->read_short(
      [this, sequence, discard = parts_.restored.before_load(sequence), &mailbox = IoMailbox::of(parts_.io)] {
        auto stored = parts_.store->load(sequence);
        mailbox.post([this, sequence, discard, stored = std::move(stored)]() mutable {
          kIoThread.assert_held();
          Outcome outcome;
          if (stored) {
            parts_.registry.loaded().end(parts_.restored.after_load(*std::move(stored), discard));
          } else {
            parts_.registry.loaded().outdate(sequence);
            outcome = std::unexpected(std::move(stored.error()));
          }
          end(sequence, outcome);
        });
      },
      owner);
}

void BatchLoads::end(std::uint64_t sequence, const Outcome& outcome) {
  constexpr std::size_t kAtOnce = 64;  // calls: some 10 us, since most only wake a connection
  auto node = waiting_.extract(sequence);
  auto go_on = [waiting = std::move(node.mapped()), outcome](Instant until) mutable {
    for (std::size_t called = 0; !waiting.empty(); waiting.pop_back()) {
      if (called++ == kAtOnce) {
        if (now() >= until) return false;
        called = 1;
      }
      waiting.back()(outcome);
    }
    return true;
  };
  if (!go_on(Instant::min())) parts_.slices.add(std::move(go_on));
}

}  // namespace locksley::daemon
