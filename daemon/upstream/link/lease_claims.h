// CLAIM: when the link asks for leases, and for which slots.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/job.h"
#include "daemon/upstream/link/command_pipeline.h"
#include "daemon/upstream/link/held_lease.h"
#include "daemon/upstream/link/lease_table.h"
#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {

// Sends CLAIMs for slots that have room: several at once while leases come faster than they end;
// the last of them waits at the upstream. Reads the leases that come, and puts each into its slot.
// README.md has which slot comes first, and when a CLAIM is put off.
//
// A member of the link; one thread; nothing blocks. Invalid replies end in CommandPipeline::fail().
class LeaseClaims {
 public:
  // `block`: how long a CLAIM waits at the upstream.
  LeaseClaims(LeaseTable& leases, CommandPipeline& pipeline, std::chrono::milliseconds block)
      : leases_(leases), pipeline_(pipeline), block_(block) {}
  LeaseClaims(const LeaseClaims&) = delete;
  LeaseClaims& operator=(const LeaseClaims&) = delete;

  // True after a lease that came when the upstream had had no job for a while, until claim().
  bool puts_off() const { return puts_off_; }
  // Asks for leases, unless the upstream drains or has just refused. If not `is_allowed`, claims
  // nothing, and ends a put-off.
  void claim(bool is_allowed);
  // The lease that the reply of a CLAIM brought, ready in its slot; null: none.
  HeldLease* on_reply(const AwaitedReply& awaited, ReplyCursor reply, std::string_view bytes);
  // The upstream gives this connection no more leases.
  void upstream_drains() { upstream_drains_ = true; }
  void connection_lost();
  // When the owner must call flush(), to claim again after a pause.
  std::optional<Nanoseconds> next_claim() const;

  std::uint64_t leased_jobs() const { return leased_jobs_; }

 private:
  // The slot with the fewest leases and claims, if it has at most `most`; else null.
  UpstreamSlot* free_slot(std::uint32_t most);
  void pause();

  LeaseTable& leases_;
  CommandPipeline& pipeline_;
  const std::chrono::milliseconds block_;

  std::uint32_t burst_ = 1;  // CLAIMs that are sent at once
  Nanoseconds claim_at_{};   // none before
  bool puts_off_ = false;
  bool upstream_drains_ = false;
  std::uint64_t leased_jobs_ = 0;
};

}  // namespace locksley::daemon
