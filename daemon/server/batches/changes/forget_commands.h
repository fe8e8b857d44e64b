// FORGET.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

class AwaitedDeletions;
class Dependencies;
class Registry;
class Retention;
class Store;
class User;
class WriteCharges;

// Executes FORGET: deletes a batch that is over, with its results. The reply waits until the
// deletion is written.
//
// Owned by Batches. The I/O thread only. Nothing blocks. A refusal is the text of the error reply.
class ForgetCommands {
 public:
  struct Parts {
    Registry& registry;
    Retention& retention;
    const Dependencies& dependencies;
    WriteCharges& charges;
    AwaitedDeletions& deletions;
    const Store* store;                            // null: there is none
    std::function<void(BatchRecord&)> apply_news;  // BatchNews::apply()
  };
  explicit ForgetCommands(Parts parts) : parts_(std::move(parts)) {}
  ForgetCommands(const ForgetCommands&) = delete;
  ForgetCommands& operator=(const ForgetCommands&) = delete;

  // None if the batch is not over; otherwise the ticket of its deletion, 0 if the store has nothing
  // to delete. The caller waits for the ticket.
  std::optional<Ticket> forget(BatchRecord& record, const User& by) LOCKSLEY_REQUIRES(kIoThread);
  // For a FORGET that finds no batch, and may be a repetition: the ticket for which its reply
  // waits. The error: an earlier deletion is not on the disk.
  std::expected<Ticket, std::string> forget_nothing() const LOCKSLEY_REQUIRES(kIoThread);

 private:
  const Parts parts_;
};

}  // namespace locksley::daemon
