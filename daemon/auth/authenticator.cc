#include "daemon/auth/authenticator.h"

#include <asio/error_code.hpp>
#include <asio/ip/address.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/auth/check_queue.h"
#include "daemon/auth/password.h"

namespace locksley::daemon {

namespace {

std::string source_of(std::string peer) {
  asio::error_code error;
  const auto address = asio::ip::make_address(peer, error);
  if (error || !address.is_v6()) return peer;
  asio::ip::address_v6 v6 = address.to_v6();
  v6.scope_id(0);
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
  asio::ip::address_v6::bytes_type bytes = v6.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace

class Authenticator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(IoExecutor executor) : executor_(executor), timer_(executor) {}

  void check(std::string source, std::string user, std::string hash, std::string password, Done done);
  void set_hashes(std::vector<std::string> hashes) { hashes_ = std::move(hashes); }
  std::uint64_t failures() const { return failures_; }
  void stop();

 private:
  // What the thread looks at: lies in queue_, which leaves it alone until it is finished.
  struct Work {
    const std::string* hash;
    const Secret* password;
  };

  std::string decoy_for(std::string_view user) const;
  void go_on();
  void finish(Verdict verdict);
  void answer(const CheckQueue::Askers& askers, Verdict verdict);
  void hand_over(Work work);
  void run();

  const IoExecutor executor_;
  // I/O thread only:
  AcceptedPasswords accepted_;
  CheckQueue queue_;
  std::vector<std::string> hashes_;
  const CheckQueue::Check* under_way_ = nullptr;
  bool is_nobodys_ = false;  // what is under way has the hash of another
  std::string decoy_;        // for it
  std::uint64_t failures_ = 0;
  Timer timer_;  // until a slowed source is due

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::optional<Work> work_;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses the above
};

void Authenticator::Impl::check(std::string source, std::string user, std::string hash, std::string password,
                                Done done) {
  Secret secret(std::move(password));
  // Too long for anybody's, and too long to keep a while: the empty one is nobody's either.
  if (secret.view().size() > kLongestPassword) secret = Secret();
  const AcceptedPasswords::Digest digest = accepted_.digest(user, hash, secret.view());
  source = source_of(std::move(source));
  if (!hash.empty() && queue_.may_look_up(source, std::chrono::steady_clock::now()) &&
      accepted_.knows(digest)) {
    return done(Verdict::kAccepted);
  }
  CheckQueue::Askers asker;
  asker.push_back(std::move(done));
  const CheckQueue::Askers displaced = queue_.put(
      {std::move(source), std::move(user), std::move(hash), std::move(secret), digest, std::move(asker)});
  go_on();
  answer(displaced, Verdict::kBusy);
}

std::string Authenticator::Impl::decoy_for(std::string_view user) const {
  if (hashes_.empty()) return decoy_hash();
  const AcceptedPasswords::Digest digest = accepted_.digest(user, "", "");
  std::size_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number = number << 8 | digest[i];
  return hashes_[number % hashes_.size()];
}

// The next check to the thread, if one is due; the timer, if one will be.
void Authenticator::Impl::go_on() {
  if (under_way_ != nullptr) return;
  timer_.cancel();
  under_way_ = queue_.take(std::chrono::steady_clock::now());
  if (under_way_ != nullptr) {
    is_nobodys_ = under_way_->hash.empty();
    if (is_nobodys_) decoy_ = decoy_for(under_way_->user);
    hand_over({is_nobodys_ ? &decoy_ : &under_way_->hash, &under_way_->password});
    return;
  }
  const auto due = queue_.next_due();
  if (!due) return;
  timer_.expires_at(*due);
  timer_.async_wait([self = weak_from_this()](asio::error_code error) {
    if (error) return;
    if (const auto impl = self.lock()) impl->go_on();
  });
}

void Authenticator::Impl::finish(Verdict verdict) {
  if (is_nobodys_) verdict = Verdict::kRefused;
  if (verdict == Verdict::kAccepted) accepted_.remember(under_way_->digest);
  under_way_ = nullptr;
  const CheckQueue::Askers askers = queue_.finish(verdict, std::chrono::steady_clock::now());
  go_on();
  answer(askers, verdict);
}

void Authenticator::Impl::answer(const CheckQueue::Askers& askers, Verdict verdict) {
  if (verdict == Verdict::kRefused) failures_ += askers.size();
  for (const Done& done : askers) done(verdict);
}

void Authenticator::Impl::hand_over(Work work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = work;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void Authenticator::Impl::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Authenticator::Impl::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || work_; });
    if (stopping_) return;
    const Work work = *std::exchange(work_, std::nullopt);
    lock.unlock();
    const Verdict verdict =
        is_password_of(*work.hash, work.password->view()) ? Verdict::kAccepted : Verdict::kRefused;
    asio::post(executor_, [self = weak_from_this(), verdict] {
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
