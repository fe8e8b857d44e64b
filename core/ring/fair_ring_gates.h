// The gates of a ring, as the program makes and changes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/job.h"
#include "core/ring/fair_ring.h"
#include "core/ring/state/ring_gate.h"

namespace locksley {

// Limits that queues of several tenants have in common. Gate 0 always exists.
//
// A handle of a ring, which outlives it. Any thread. Each call takes the ring's mutex once; a
// change is effective at once; running turns go on. A gate that does not exist ends the process.
// O(1), unless the call says otherwise.
class FairRing::Gates {
 public:
  // None if there are kMostGates. The id of a gate that was removed is used again.
  std::optional<GateId> add(const GateOptions& options);
  // False, and nothing happens, while a queue belongs to the gate, during set_start_cost() for it,
  // and for gate 0. O(tenants + customers).
  bool remove(GateId gate);

  // GateOptions::concurrency, is_on, max_running, is_remote, is_held.
  void set_concurrency(GateId gate, std::uint32_t concurrency);
  void set_switch(GateId gate, bool is_on);
  void set_max_running(GateId gate, std::uint32_t most);
  void set_remote(GateId gate, bool is_remote);
  void set_hold(GateId gate, bool is_held);
  // GateOptions::largest_claim, for later claims.
  void set_largest_claim(GateId gate, std::uint64_t most);
  // GateOptions::start_cost. With another value, all queues of the gate and all groups there start
  // anew, none ahead of another, because charges at the old start cost cannot be compared with
  // charges at the new one. O(queues), in several parts: the call takes the mutex once for each,
  // and sleeps in between (StartAnewWalk::go_on()). With 100,000 queues it takes some 0.1 s.
  void set_start_cost(GateId gate, Nanoseconds start_cost);

 private:
  friend class FairRing;
  explicit Gates(FairRing& ring) : ring_(ring) {}

  template <class Change>
  void change(GateId id, Change apply) LOCKSLEY_EXCLUDES(ring_.mutex_);

  FairRing& ring_;
};

// A walk over the ring that lets all queues of a gate, and all groups there, start anew
// (FairLevel::start_anew()), some of them in each part. Each node starts anew independently of the
// others: the walk may reach it at any time, and more than once. A node that joins the ring
// meanwhile starts at the virtual time anyway.
//
// Used by one thread, which may use the ring between the parts; the ring outlives it. Other threads
// may use the ring at any time, also for walks. go_on() takes the ring's mutex once.
class FairRing::StartAnewWalk {
 public:
  static constexpr std::size_t kAtOnce = 512;  // nodes: some 0.1 ms

  StartAnewWalk(FairRing& ring, GateId gate) LOCKSLEY_EXCLUDES(ring.mutex_);
  ~StartAnewWalk() LOCKSLEY_EXCLUDES(ring_.mutex_);
  StartAnewWalk(const StartAnewWalk&) = delete;
  StartAnewWalk& operator=(const StartAnewWalk&) = delete;

  // Visits at most kAtOnce nodes. True: all have been visited.
  bool go_on() LOCKSLEY_EXCLUDES(ring_.mutex_);

 private:
  friend class FairRing;

  // The next group of the ring, in the order of their names, each tenant before its customers;
  // null: there is none. A group that is gone meanwhile is passed over.
  RingGroup* next_group() LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);
  void start_anew(RingGroup& group) LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);

  FairRing& ring_;
  RingGate* gate_ LOCKSLEY_GUARDED_BY(kFairNodes);
  StartAnewWalk* other_ LOCKSLEY_GUARDED_BY(kFairNodes);  // the next in FairRing::walks_
  // The group at which it is; no tenant: it has not begun; no customer: the tenant itself.
  std::optional<std::string> tenant_ LOCKSLEY_GUARDED_BY(kFairNodes);
  std::optional<std::string> customer_ LOCKSLEY_GUARDED_BY(kFairNodes);
  // The group's next queue; null: the next group is next. leave() moves it on.
  RingQueue* queue_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
};

inline FairRing::Gates FairRing::gates() { return Gates(*this); }

}  // namespace locksley
