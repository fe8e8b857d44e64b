// The memory of connections, and the accounts that are charged for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "config/config.h"
#include "daemon/server/accounts/account.h"
#include "proto/command_reader.h"

namespace locksley::daemon {

// Charges the memory of each connection to the account of its user: unfinished commands as
// Resource::kInputBytes, all else as Resource::kClientBytes. That is replies that wait for their
// readers or for the store, data read for the reply to a command under way, events to be matched,
// names of subscriptions, and commands queued since MULTI. Connections that have not logged in have
// one account together, which leaves room to others like a user's account.
//
// Owned by Sessions. The I/O thread only. Nothing blocks. It only counts: the caller that adds to a
// sum acts on the answer.
class ClientMemory {
 public:
  // `config` is what is in force; it may change.
  ClientMemory(const config::Config& config, Account& all) : config_(config), all_(all) {
    strangers_.set_limit(Resource::kInputBytes, Account::kNoLimit, Account::Kind::kLeavesRoom);
  }
  ClientMemory(const ClientMemory&) = delete;
  ClientMemory& operator=(const ClientMemory&) = delete;

  Account& all() const { return all_; }
  // The account of connections that have not logged in.
  const Account& strangers() const { return strangers_; }

  // The part of one connection. A member of a Session, which calls clear() at its end. The
  // destructor does not: a pending wait of Asio may destroy the session after the sums.
  class Part {
   public:
    explicit Part(ClientMemory& all) : all_(all), account_(&all.strangers_) {}
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    std::uint64_t input() const { return input_; }
    std::uint64_t output() const { return output_; }
    // The account that is charged: that of the connection's user, or of strangers().
    Account& account() const { return *account_; }
    // From now on charges `account`; null: strangers().
    void set_account(Account* account) {
      account_->refund(Resource::kClientBytes, output_);
      account_->refund(Resource::kInputBytes, input_);
      account_ = account != nullptr ? account : &all_.strangers_;
      account_->charge(Resource::kClientBytes, output_);
      account_->charge(Resource::kInputBytes, input_);
    }

    // False: the caller refuses the connection, because its input has grown beyond fair_input(),
    // and its account, or that of all, is over its limit of unfinished commands.
    bool set_input(std::uint64_t bytes) {
      if (bytes == input_) return true;
      account_->charge(Resource::kInputBytes, bytes);
      const std::uint64_t before = std::exchange(input_, bytes);
      account_->refund(Resource::kInputBytes, before);
      return bytes <= std::max(before, all_.fair_input()) ||
             account_->first_without_room(Resource::kInputBytes, 0) == nullptr;
    }
    void set_output(std::uint64_t bytes) {
      account_->charge(Resource::kClientBytes, bytes);
      account_->refund(Resource::kClientBytes, std::exchange(output_, bytes));
    }
    void clear() {
      set_input(0);
      set_output(0);
    }

   private:
    ClientMemory& all_;
    Account* account_;
    std::uint64_t input_ = 0;
    std::uint64_t output_ = 0;
  };

 private:
  // An equal share of the limit, or room for a few small commands: a connection within it is not
  // refused.
  std::uint64_t fair_input() const {
    const config::Limits& limits = config_.limits;
    return std::max<std::uint64_t>(
        2 * proto::CommandReader::kFirstBlockBytes,
        limits.max_queued_bytes.count / std::max<std::uint64_t>(limits.max_clients, 1));
  }

  const config::Config& config_;
  Account& all_;
  Account strangers_{&all_};
};

}  // namespace locksley::daemon
