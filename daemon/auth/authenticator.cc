#include "daemon/auth/authenticator.h"

#include <asio/error_code.hpp>
#include <asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "core/sync/mutex.h"
#include "daemon/auth/check_queue.h"
#include "daemon/auth/password.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/net/peer_network.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

namespace {

// The pause before the answer kBusy. Without it a client that tries passwords in a loop would get
// thousands of these answers a second, each after a look-up of its password. The value is a guess.
constexpr std::chrono::seconds kBusyDelay{1};

// A text that is no address is a source of its own.
std::string source_of(std::string peer) {
  asio::error_code error;
  const auto address = asio::ip::make_address(peer, error);
  return error ? peer : network_text(address);
}

}  // namespace

class Authenticator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(IoExecutor executor)
      : mailbox_(IoMailbox::of(executor.context())), timer_(executor), busy_timer_(executor) {}

  void check(std::string source, std::string user, std::string hash, std::string password, Done done);
  void set_hashes(std::vector<std::string> hashes) { hashes_ = std::move(hashes); }
  std::uint64_t failures() const { return failures_; }
  void stop();

 private:
  // The check that the thread makes. Points into queue_ and decoy_, which do not change before
  // finish().
  struct Work {
    const std::string* hash;
    const Secret* password;
  };

  std::string decoy_for(std::string_view user) const;
  // Hands the next check to the thread if one is due; else sets the timer for the time when the
  // next one is.
  void start_next();
  void finish(Verdict verdict);
  // Answers kBusy after kBusyDelay, or at once if too many askers already wait for that answer.
  void turn_away(CheckQueue::Askers askers);
  void answer_turned_away();
  void answer(const CheckQueue::Askers& askers, Verdict verdict);
  void hand_over(Work work) LOCKSLEY_EXCLUDES(mutex_);
  void run() LOCKSLEY_EXCLUDES(mutex_);

  IoMailbox& mailbox_;  // of the I/O thread
  // I/O thread only:
  AcceptedPasswords accepted_;
  CheckQueue queue_;
  std::vector<std::string> hashes_;
  const CheckQueue::Check* under_way_ = nullptr;
  bool is_decoy_ = false;  // under_way_ is of a user without a password: decoy_ is checked, and it is refused
  std::string decoy_;
  std::uint64_t failures_ = 0;
  Timer timer_;  // until the next check of a slowed source is due
  struct TurnedAway {
    Instant answered_at;
    CheckQueue::Askers askers;
  };
  std::deque<TurnedAway> turned_away_;
  std::size_t turned_away_askers_ = 0;
  Timer busy_timer_;  // until the first of turned_away_ is answered; runs while there is one

  Mutex mutex_;
  CondVar changed_;
  std::optional<Work> work_ LOCKSLEY_GUARDED_BY(mutex_);
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

void Authenticator::Impl::check(std::string source, std::string user, std::string hash, std::string password,
                                Done done) {
  Secret secret(std::move(password));
  // No hash belongs to so long a password, and the queue must not hold it. The empty password,
  // which replaces it, is refused as well.
  if (secret.view().size() > kLongestPassword) secret = Secret();
  const AcceptedPasswords::Digest digest = accepted_.digest(user, hash, secret.view());
  source = source_of(std::move(source));
  if (!hash.empty()) {
    if (accepted_.knows_from(digest, source)) return done(Verdict::kAccepted);
    if (queue_.may_look_up(source, now()) && accepted_.knows(digest)) {
      accepted_.remember(digest, source);
      return done(Verdict::kAccepted);
    }
  }
  if (user.size() > CheckQueue::kLongestUser) user.resize(CheckQueue::kLongestUser + 1);
  CheckQueue::Askers asker;
  asker.push_back(std::move(done));
  CheckQueue::Askers displaced = queue_.put(
      {std::move(source), std::move(user), std::move(hash), std::move(secret), digest, std::move(asker)});
  start_next();
  turn_away(std::move(displaced));
}

void Authenticator::Impl::turn_away(CheckQueue::Askers askers) {
  if (askers.empty()) return;
  if (turned_away_askers_ + askers.size() > CheckQueue::kMostAskers) return answer(askers, Verdict::kBusy);
  turned_away_askers_ += askers.size();
  turned_away_.push_back({now() + kBusyDelay, std::move(askers)});
  if (turned_away_.size() == 1) answer_turned_away();
}

void Authenticator::Impl::answer_turned_away() {
  while (!turned_away_.empty() && turned_away_.front().answered_at <= now()) {
    const TurnedAway first = std::move(turned_away_.front());
    turned_away_.pop_front();
    turned_away_askers_ -= first.askers.size();
    answer(first.askers, Verdict::kBusy);
  }
  if (turned_away_.empty()) return;
  busy_timer_.expires_at(turned_away_.front().answered_at);
  busy_timer_.async_wait([self = weak_from_this()](asio::error_code error) {
    if (error) return;
    if (const auto impl = self.lock()) impl->answer_turned_away();
  });
}

std::string Authenticator::Impl::decoy_for(std::string_view user) const {
  if (hashes_.empty()) return decoy_hash();
  const AcceptedPasswords::Digest digest = accepted_.digest(user, "", "");
  std::size_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number = number << 8 | digest[i];
  return hashes_[number % hashes_.size()];
}

void Authenticator::Impl::start_next() {
  if (under_way_ != nullptr) return;
  timer_.cancel();
  under_way_ = queue_.take(now());
  if (under_way_ != nullptr) {
    is_decoy_ = under_way_->hash.empty();
    if (is_decoy_) decoy_ = decoy_for(under_way_->user);
    hand_over({is_decoy_ ? &decoy_ : &under_way_->hash, &under_way_->password});
    return;
  }
  const auto due = queue_.next_due();
  if (!due) return;
  timer_.expires_at(*due);
  timer_.async_wait([self = weak_from_this()](asio::error_code error) {
    if (error) return;
    if (const auto impl = self.lock()) impl->start_next();
  });
}

void Authenticator::Impl::finish(Verdict verdict) {
  if (is_decoy_) verdict = Verdict::kRefused;
  if (verdict == Verdict::kAccepted) accepted_.remember(under_way_->digest, under_way_->source);
  under_way_ = nullptr;
  const CheckQueue::Askers askers = queue_.finish(verdict, now());
  start_next();
  answer(askers, verdict);
}

void Authenticator::Impl::answer(const CheckQueue::Askers& askers, Verdict verdict) {
  if (verdict == Verdict::kRefused) failures_ += askers.size();
  for (const Done& done : askers) done(verdict);
}

void Authenticator::Impl::hand_over(Work work) {
  {
    const MutexLock lock(mutex_);
    work_ = work;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void Authenticator::Impl::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Authenticator::Impl::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && !work_) changed_.wait(mutex_);
    if (stopping_) return;
    const Work work = *std::exchange(work_, std::nullopt);
    lock.unlock();
    const Verdict verdict =
        is_password_of(*work.hash, work.password->view()) ? Verdict::kAccepted : Verdict::kRefused;
    mailbox_.post([self = weak_from_this(), verdict] {
      if (const auto impl = self.lock()) impl->finish(verdict);
    });
    lock.lock();
  }
}

Authenticator::Authenticator(IoExecutor executor) : impl_(std::make_shared<Impl>(executor)) {}

Authenticator::~Authenticator() { impl_->stop(); }

void Authenticator::check(std::string source, std::string user, std::string hash, std::string password,
                          Done done) {
  impl_->check(std::move(source), std::move(user), std::move(hash), std::move(password), std::move(done));
}

void Authenticator::set_hashes(std::vector<std::string> hashes) { impl_->set_hashes(std::move(hashes)); }

std::uint64_t Authenticator::failures() const { return impl_->failures(); }

}  // namespace locksley::daemon
