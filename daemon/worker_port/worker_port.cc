#include "daemon/worker_port/worker_port.h"

#include <utility>

#include "daemon/base/loop/io_mailbox.h"

namespace locksley::daemon {

namespace {

WorkerLinkOptions link_options(const config::Config& config, bool has_recovered) {
  WorkerLinkOptions options;
  const auto milliseconds = [](config::Duration time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time);
  };
  options.lease = milliseconds(config.workers.lease);
  options.reclaim = milliseconds(config.workers.reclaim);
  options.has_recovered = has_recovered;
  options.max_losses = config.workers.max_losses;
  options.max_leased_bytes = config.workers.max_leased_bytes.count;
  return options;
}

}  // namespace

WorkerPort::~WorkerPort() {
  const ThreadRoleScope role(kIoThread);
  stop();
  // The lanes outlive it.
  for (Lane* const lane : state_.lanes()) lane->set_remote(nullptr);
}

void WorkerPort::begin() {
  const bool has_recovered = state_.batches().active() != 0;
  const ThreadRoleScope role(kLinkThread);
  service_ = std::make_unique<LinkService>(
      LinkService::Parts{.questions = questions(), .store = store_, .log = state_.shared_log()},
      link_options(state_.config(), has_recovered), state_.machines(),
      WorkerDirectory::make(state_, nullptr, {}));
}

LinkService::Questions WorkerPort::questions() {
  IoMailbox& mailbox = IoMailbox::of(state_.io());
  return {
      .log_in =
          [this, &mailbox](LoginQuestion question, std::function<void(LoginAnswer)> done) {
            mailbox.post([this, question = std::move(question), done = std::move(done)]() mutable {
              kIoThread.assert_held();
              desk_.ask(std::move(question), [this, done = std::move(done)](LoginAnswer answer) {
                service_->mailbox().post(
                    [done, answer = std::move(answer)]() mutable { done(std::move(answer)); });
              });
            });
          },
      .find_batch =
          [this, &mailbox](std::uint64_t number, std::function<void(std::shared_ptr<Batch>)> done) {
            mailbox.post([this, number, done = std::move(done)] {
              kIoThread.assert_held();
              // A batch that is not over is in memory, and RECLAIM gets no jobs of others: the disk
              // is not read.
              BatchRecord* const record = state_.batches().registry().by_sequence(number);
              std::shared_ptr<Batch> batch;
              if (record != nullptr && !record->is_over()) batch = record->shared();
              service_->mailbox().post(
                  [done, batch = std::move(batch)]() mutable { done(std::move(batch)); });
            });
          },
  };
}

std::expected<asio::ip::tcp::endpoint, std::string> WorkerPort::listen(BoundPort port, std::string address) {
  const ThreadRoleScope role(kLinkThread);
  auto bound = service_->listen(std::move(port));
  if (bound) address_ = std::move(address);
  return bound;
}

void WorkerPort::start() {
  watch_lanes();
  auto directory = WorkerDirectory::make(state_, tls_, address_);
  {
    // Done here, so that the metrics exist before the first scrape.
    const ThreadRoleScope role(kLinkThread);
    service_->set_directory(std::move(directory));
  }
  thread_ = std::thread([this] {
    const ThreadRoleScope role(kLinkThread);
    service_->run([&pool = state_.pool()] { return pool.has_free_worker(); });
  });
}

void WorkerPort::update(std::shared_ptr<const TlsContext> tls) {
  tls_ = std::move(tls);
  if (!is_open()) return;
  watch_lanes();
  service_->mailbox().post(
      [service = service_.get(), directory = WorkerDirectory::make(state_, tls_, address_)]() mutable {
        kLinkThread.assert_held();
        service->set_directory(std::move(directory));
      });
}

void WorkerPort::watch_lanes() {
  for (const auto& [name, entry] : state_.handlers().entries()) {
    if (!entry.is_remote) continue;
    entry.lane.set_remote(service_.get());
  }
}

void WorkerPort::store_advanced() {
  if (service_ == nullptr || !service_->awaits_store()) return;
  service_->mailbox().post([service = service_.get()] {
    kLinkThread.assert_held();
    service->store_advanced();
  });
}

void WorkerPort::drain() {
  if (!is_open()) return;
  service_->mailbox().post([service = service_.get()] {
    kLinkThread.assert_held();
    service->drain();
  });
}

void WorkerPort::stop() {
  if (!thread_.joinable()) return;
  service_->mailbox().post([service = service_.get()] {
    kLinkThread.assert_held();
    service->stop();
  });
  thread_.join();
}

}  // namespace locksley::daemon
