// Whether a ring has work that may be claimed, for threads that do not hold its mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/cache_line.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_lock.h"

namespace locksley {

// A member of the ring. Written under the ring's mutex, at the end of each call that has changed a
// gate; read by any thread. On cache lines of its own, since idle workers read it often. Nothing
// blocks or fails.
class ReadyHints {
 public:
  // ---- Any thread ----

  // Whether a job can be claimed; jobs at a closed gate cannot. Once a call of the ring that made a
  // job claimable has returned, this is true (seq_cst) until that job is claimed or cannot be
  // claimed any more.
  bool has_work(ClaimFilter filter = ClaimFilter::kAny) const { return has(bit_of(filter)); }
  // The same of some gates only.
  bool has_work(const GateSet& gates, ClaimFilter filter = ClaimFilter::kAny) const {
    return has_at(gates, bit_of(filter));
  }
  // The same for remote executors, at any gate or at some.
  bool has_remote_work() const { return has(kRemote); }
  bool has_remote_work(const GateSet& gates) const { return has_at(gates, kRemote); }
  // How often jobs have become claimable, other than by a settlement:
  //   - a queue without claimable jobs has got some: by add_jobs(), add_range(), queue_again(),
  //     resume(), set_slots() or Leases::give_back(), or because its back-off has ended;
  //   - a group is no longer at its limit: its rate admits a start, its limits have changed, or its
  //     results have room (Groups::reopen_tenants());
  //   - the program has opened a gate.
  // If the number has changed, a newcomer waits, and an executor should end its turn early. The
  // executor's batch loses nothing, since it is charged only for the time that the turn took.
  std::uint64_t arrivals() const {
    // [ring-arrivals] relaxed: a stale value ends a turn one job later.
    return arrivals_.load(std::memory_order_relaxed);
  }

  // ---- The ring, under its mutex ----

  // Bits: there are jobs to claim for local executors, for those for brief jobs, for remote ones.
  static constexpr std::uint32_t kAny = 1;
  static constexpr std::uint32_t kBrief = 2;
  static constexpr std::uint32_t kRemote = 4;

  void count_arrival() LOCKSLEY_REQUIRES(kFairNodes) {
    // [ring-arrivals] relaxed: as in arrivals(); only the holder of the mutex writes.
    arrivals_.fetch_add(1, std::memory_order_relaxed);
  }
  void reserve(std::size_t gates) LOCKSLEY_REQUIRES(kFairNodes) { unpublished_.reserve(gates); }
  // The gate's bits have changed, and will be published.
  void set(RingGate& gate, std::uint32_t ready) LOCKSLEY_REQUIRES(kFairNodes) {
    if (ready == gate.ready) return;
    gate.ready = ready;
    if (!std::exchange(gate.is_unpublished, true)) unpublished_.push_back(&gate);
  }
  // `open`: all gates of which something may be claimed.
  void publish(const std::vector<RingGate*>& open) LOCKSLEY_REQUIRES(kFairNodes) {
    if (!unpublished_.empty()) publish_all(open);
  }

 private:
  static constexpr std::uint32_t bit_of(ClaimFilter filter) {
    return filter == ClaimFilter::kAny ? kAny : kBrief;
  }
  bool has(std::uint32_t bits) const { return (ready_.load() & bits) != 0; }
  bool has_at(const GateSet& gates, std::uint32_t bit) const {
    const auto& words = bit == kAny ? any_ : bit == kBrief ? brief_ : remote_;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (const std::uint64_t word = gates.word(i); word != 0 && (words[i].load() & word) != 0) return true;
    }
    return false;
  }
  void publish_all(const std::vector<RingGate*>& open) LOCKSLEY_REQUIRES(kFairNodes) {
    for (RingGate* const gate : unpublished_) {
      gate->is_unpublished = false;
      const std::uint32_t changed = gate->ready ^ std::exchange(gate->published, gate->ready);
      const std::uint64_t bit = GateSet::bit(gate->id);
      if ((changed & kAny) != 0) any_[gate->id / 64].fetch_xor(bit);
      if ((changed & kBrief) != 0) brief_[gate->id / 64].fetch_xor(bit);
      if ((changed & kRemote) != 0) remote_[gate->id / 64].fetch_xor(bit);
    }
    unpublished_.clear();
    std::uint32_t ready = 0;
    for (const RingGate* const gate : open) ready |= gate->ready;
    if (ready != std::exchange(published_, ready)) ready_.store(ready);
  }

  std::vector<RingGate*> unpublished_ LOCKSLEY_GUARDED_BY(kFairNodes);
  std::uint32_t published_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // ready_, without the atomic

  // Written under the mutex, read by any thread: what may be claimed at any gate, and a bit for
  // each gate.
  alignas(kCacheLine) std::atomic<std::uint32_t> ready_{0};
  std::atomic<std::uint64_t> arrivals_{0};
  using Words = std::array<std::atomic<std::uint64_t>, GateSet::kWords>;
  alignas(kCacheLine) Words any_{};
  Words brief_{};
  Words remote_{};
};

}  // namespace locksley
