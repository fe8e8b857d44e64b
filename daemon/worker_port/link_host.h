// The functions of the daemon that the link to remote workers calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/store/store.h"
#include "daemon/worker_port/input_budget.h"
#include "daemon/worker_port/link_thread.h"
#include "daemon/worker_port/worker_directory.h"
#include "daemon/workers/interface/worker_host.h"

namespace locksley::daemon {

// Answers the link from the directory, from the store, and with the batch that a question of
// RECLAIM has found.
//
// Owned by the LinkService; the store and the budget outlive it. The link thread only. Nothing
// blocks or fails.
class LinkHost final : public WorkerHost {
 public:
  // `store`: null: all is in memory only.
  LinkHost(Store* store, const InputBudget& input, std::shared_ptr<const WorkerDirectory> directory)
      LOCKSLEY_REQUIRES(kLinkThread);
  LinkHost(const LinkHost&) = delete;
  LinkHost& operator=(const LinkHost&) = delete;

  const WorkerDirectory& directory() const LOCKSLEY_REQUIRES(kLinkThread) { return *directory_; }
  // Returns the previous directory.
  std::shared_ptr<const WorkerDirectory> set_directory(std::shared_ptr<const WorkerDirectory> directory)
      LOCKSLEY_REQUIRES(kLinkThread) {
    return std::exchange(directory_, std::move(directory));
  }
  // The answer to a question of RECLAIM, for the next command of the link.
  void set_found(std::uint64_t number, std::shared_ptr<Batch> batch) LOCKSLEY_REQUIRES(kLinkThread) {
    found_ = {number, std::move(batch)};
  }

  // WorkerHost
  bool may_work(std::string_view user) override;
  bool may_serve(std::string_view user, std::string_view handler) override;
  HandlerPlace place_of(std::string_view handler) override;
  std::vector<std::string> handlers_for(std::string_view user) override;
  std::vector<HandlerPlace> places() override;
  std::uint64_t number_of(const Batch& batch) override;
  std::shared_ptr<Batch> batch_of(std::uint64_t number) override;
  bool has_room() override;
  std::uint64_t last_write() override;
  std::optional<std::string> join_refusal() override;
  std::vector<std::string> addresses() override;
  std::uint64_t longest_output() override;
  const std::string& store() override { return store_name_; }

 private:
  Store* const store_;
  const std::string store_name_;  // the store's name, or that of this life
  const InputBudget& input_;
  std::shared_ptr<const WorkerDirectory> directory_ LOCKSLEY_GUARDED_BY(kLinkThread);
  std::pair<std::uint64_t, std::shared_ptr<Batch>> found_ LOCKSLEY_GUARDED_BY(kLinkThread);
  // The store was asked to write soon up to this ticket.
  Ticket asked_for_ LOCKSLEY_GUARDED_BY(kLinkThread) = 0;
};

}  // namespace locksley::daemon
