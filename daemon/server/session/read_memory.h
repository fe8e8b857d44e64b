// Charges a read by another thread for the command under way to the memory of its connection.
#pragma once

#include <functional>
#include <memory>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/session/session_memory.h"

namespace locksley::daemon {

// Counts the result of a read by another thread for the command under way to the memory of the
// connection: from the end of the read until this object is destroyed. A result may be as large as
// limits.output_buffer, and the connection may wait long for its turn to copy it into a reply.
//
// A local variable of the command's coroutine, declared before the variable for the rows; at most
// one at a time. The I/O thread only. The connection may be dropped when the read ends: it then
// holds too much.
class ReadMemory {
 public:
  explicit ReadMemory(SessionMemory& all) : all_(all) {}
  ReadMemory(const ReadMemory&) = delete;
  ReadMemory& operator=(const ReadMemory&) = delete;

  // The owner of the next read, to be passed to it: expires when this is destroyed, or at the next
  // begin_read(). The result of an earlier read does not count any more.
  std::weak_ptr<const void> begin_read() {
    counted_ = std::make_shared<Counted>(all_);
    return counted_;
  }
  // The function to call at the end of the read that has begun; it counts read.memory_bytes(). It
  // has no effect once this object is destroyed.
  template <class Read>
  std::function<void(const Read&)> on_read() {
    return [counted = std::weak_ptr(counted_)](const Read& read) {
      kIoThread.assert_held();
      if (const auto still_wanted = counted.lock()) still_wanted->all.count_read(read.memory_bytes());
    };
  }

 private:
  struct Counted {
    explicit Counted(SessionMemory& its) : all(its) {}
    ~Counted() { all.forget_read(); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    SessionMemory& all;
  };

  SessionMemory& all_;
  std::shared_ptr<Counted> counted_;  // this is the only owner; null: nothing was read
};

}  // namespace locksley::daemon
