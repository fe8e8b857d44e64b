#include "daemon/upstream/upstream_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/post.hpp>
#include <asio/ssl/stream.hpp>
#include <string_view>
#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/net/tcp_round_trip.h"
#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

// How long connecting may take, and then the TLS handshake. A guess.
constexpr std::chrono::milliseconds kConnectTimeout{10'000};
// The same for TCP alone if there are other addresses to try, since the machine of this one may be
// gone. TCP sends one lost packet again within this time. A guess.
constexpr std::chrono::milliseconds kAddressTimeout{1'500};
// A peer that vanished is noticed after about this long, until JOIN says how long a lease lasts.
constexpr std::chrono::seconds kSilence{10};
// Guesses. Within the first, TCP sends two lost packets again; the second is how long a person
// waits for an upstream that has moved to another machine.
constexpr std::chrono::seconds kShortestSilence{1};
constexpr std::chrono::seconds kLongestSilence{60};
// Between two readings of the socket's round trip, which changes slowly. A guess.
constexpr std::chrono::seconds kRoundTripPeriod{1};

void set_tcp_option(asio::ip::tcp::socket& socket, int name, std::chrono::milliseconds::rep value) {
  const int number = static_cast<int>(value);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &number, sizeof number);
}

}  // namespace

UpstreamConnection::UpstreamConnection(Parts parts)
    : parts_(std::move(parts)),
      runner_(
          parts_.lane, parts_.handlers, parts_.use, &parts_.results,
          [this, &mailbox = IoMailbox::of(parts_.io)] {
            mailbox.post([this] {
              kUpstreamThread.assert_held();
              take_results();
            });
          },
          parts_.log),
      link_(runner_, parts_.link, steady_now()),
      reports_({.name = parts_.link.name,
                .lane = parts_.lane.name(),
                .slots = parts_.link.slots,
                .handlers = parts_.link.handlers.size(),
                .are_handlers_named = parts_.are_handlers_named,
                .meter = parts_.meter,
                .refused = parts_.refused,
                .log = parts_.log}),
      kept_(&parts_.results),
      resolver_(parts_.io),
      socket_(parts_.io),
      timer_(parts_.io),
      connect_timer_(parts_.io),
      hold_off_timer_(parts_.io),
      news_timer_(parts_.io) {}

UpstreamConnection::~UpstreamConnection() = default;

// ---- The link ----

void UpstreamConnection::drain() {
  link_.drain(steady_now());
  serve();
}

void UpstreamConnection::stop() {
  link_.stop(steady_now());
  serve();
}

void UpstreamConnection::settle(LeaseKey lease, JobStatus status, std::uint64_t first, std::uint64_t count,
                                std::string outputs) {
  kUpstreamThread.assert_held();
  link_.settle(lease, status, first, count, std::move(outputs), steady_now());
}

void UpstreamConnection::ended(LeaseKey lease) {
  kUpstreamThread.assert_held();
  link_.ended(lease, steady_now());
}

bool UpstreamConnection::try_send_news(LeaseKey lease, std::uint64_t index, const JobNews& news) {
  kUpstreamThread.assert_held();
  return link_.try_send_news(lease, index, news, steady_now());
}

void UpstreamConnection::keep_last_news(LeaseKey lease, std::uint64_t index, const JobNews& news) {
  kUpstreamThread.assert_held();
  link_.keep_last_news(lease, index, news);
}

void UpstreamConnection::arm_news_timer() {
  if (runner_.running() == 0 || std::exchange(news_timer_is_armed_, true)) return;
  news_timer_.expires_after(LeaseRunner::kNewsPeriod);
  news_timer_.async_wait([this](const asio::error_code& error) {
    kUpstreamThread.assert_held();
    if (error || is_abandoned_) return;
    news_timer_is_armed_ = false;
    runner_.send_news(*this);
    serve();
  });
}

void UpstreamConnection::take_results() {
  if (runner_.take(*this)) {
    hold_off_timer_.expires_after(LeaseRunner::kHoldOff);
    hold_off_timer_.async_wait([this](const asio::error_code& error) {
      kUpstreamThread.assert_held();
      if (!error) take_results();
    });
  }
  serve();
}

void UpstreamConnection::serve() {
  if (is_abandoned_) return;
  if (is_open_) {
    const Nanoseconds now = steady_now();
    link_.flush(now);
    write(now);
    measure_round_trip(now);
    if (link_.is_broken()) close(link_.trouble());
  }
  kept_.set(link_.stats().kept_bytes);
  // The link has just joined.
  if (reports_.report(link_))
    set_silence(link_.joined().lease.count() != 0 ? link_.joined().lease : kSilence);
  if (link_.is_done()) {
    if (is_open_) close("");
    return parts_.changed();
  }
  if (!is_connecting_ && !is_open_ && !is_closing_ && link_.wants_connection(steady_now())) connect();
  arm_timer();
  arm_news_timer();
}

void UpstreamConnection::claim_put_off() {
  if (!is_open_ || !link_.puts_off_claims()) return;
  const Nanoseconds now = steady_now();
  link_.claim_put_off(now);
  write(now);
}

void UpstreamConnection::arm_timer() {
  if (is_connecting_ || is_closing_) return;
  std::optional<Nanoseconds> next = link_.next_timer();
  if (const auto look = link_.next_check(); look && is_open_) next = next ? std::min(*next, *look) : look;
  // A timer for an earlier time stays: each reply postpones the next instant, so the timer rarely
  // goes off.
  if (!next || (timer_at_ != Nanoseconds{0} && timer_at_ <= *next)) return;
  timer_at_ = *next;
  timer_.expires_at(Instant(*next));
  timer_.async_wait([this](const asio::error_code& error) {
    kUpstreamThread.assert_held();
    if (error || is_abandoned_) return;
    timer_at_ = Nanoseconds{0};
    const Nanoseconds now = steady_now();
    link_.advance(now);
    link_.report_waiting(now);
    serve();
  });
}

void UpstreamConnection::measure_round_trip(Nanoseconds now) {
  if (measured_at_ != Nanoseconds{0} && now - measured_at_ < kRoundTripPeriod) return;
  measured_at_ = now;
  if (const auto measured = tcp_round_trip(socket_.native_handle()))
    parts_.meter.round_trip_us.set(static_cast<std::uint64_t>(measured->count()));
}

// ---- The socket ----

void UpstreamConnection::connect() {
  is_connecting_ = true;
  ++operations_;
  const client::Address& to = link_.address();
  reports_.connecting_to(to.text());
  const std::chrono::milliseconds time = link_.has_other_addresses() ? kAddressTimeout : kConnectTimeout;
  // A name goes through the resolver, which is a thread of Asio's; a number needs none.
  asio::error_code not_a_number;
  const auto number = asio::ip::make_address(to.host, not_a_number);
  if (!not_a_number) {
    arm_connect_timer(time);
    return socket_.async_connect({number, to.port}, [this](const asio::error_code& error) {
      kUpstreamThread.assert_held();
      on_connected(error);
    });
  }
  arm_connect_timer(kConnectTimeout);
  resolver_.async_resolve(
      to.host, std::to_string(to.port),
      [this, time](const asio::error_code& error, const asio::ip::tcp::resolver::results_type& found) {
        kUpstreamThread.assert_held();
        if (error || is_closing_) return on_connected(error);
        // The addresses are tried one after the other.
        arm_connect_timer(time * static_cast<int>(found.size()));
        asio::async_connect(socket_, found, [this](const asio::error_code& last, const auto&) {
          kUpstreamThread.assert_held();
          on_connected(last);
        });
      });
}

void UpstreamConnection::arm_connect_timer(std::chrono::milliseconds time) {
  connect_timer_.expires_after(time);
  connect_timer_.async_wait([this, time](const asio::error_code& error) {
    kUpstreamThread.assert_held();
    if (!error && is_connecting_)
      close(fmt::format("no connection in {:g} s", static_cast<double>(time.count()) / 1000));
  });
}

void UpstreamConnection::on_connected(const asio::error_code& error) {
  if (error) close("cannot connect: " + error.message());
  if (is_closing_) return end_operation();
  set_socket_options();
  if (link_.address().tls) return secure();
  --operations_;
  open();
}

void UpstreamConnection::set_socket_options() {
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  set_silence(kSilence);
  set_tcp_option(socket_, TCP_KEEPIDLE, kSilence.count());
  set_tcp_option(socket_, TCP_KEEPINTVL, 5);
  set_tcp_option(socket_, TCP_KEEPCNT, 3);
}

// The upstream gives a silent worker's jobs to others after a lease. If the connection breaks
// sooner, this process loses jobs that it could go on with; if later, it gets no new jobs until
// then.
void UpstreamConnection::set_silence(std::chrono::milliseconds lease) {
  const std::chrono::milliseconds silence =
      std::clamp<std::chrono::milliseconds>(lease, kShortestSilence, kLongestSilence);
  set_tcp_option(socket_, TCP_USER_TIMEOUT, silence.count());
}

void UpstreamConnection::secure() {
  arm_connect_timer(kConnectTimeout);
  auto stream = client::make_tls_stream(socket_, link_.address());
  if (!stream) {
    close(stream.error().message);
    return end_operation();
  }
  tls_ = std::move(*stream);
  tls_->async_handshake(client::TlsStream::client, [this](const asio::error_code& error) {
    kUpstreamThread.assert_held();
    if (error) close(client::explain_handshake(*tls_, error, link_.address()));
    if (is_closing_) return end_operation();
    --operations_;
    open();
  });
}

void UpstreamConnection::open() {
  is_connecting_ = false;
  is_open_ = true;
  connect_timer_.cancel();
  link_.connected(steady_now());
  read();
  serve();
}

void UpstreamConnection::close(std::string why) {
  if (std::exchange(is_closing_, true)) return;
  why_ = std::move(why);
  is_open_ = false;
  connect_timer_.cancel();
  resolver_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  if (operations_ != 0) return;
  ++operations_;
  asio::post(parts_.io, [this] {
    kUpstreamThread.assert_held();
    end_operation();
  });
}

void UpstreamConnection::end_operation() {
  --operations_;
  if (!is_closing_ || operations_ != 0) return;
  is_closing_ = is_connecting_ = false;
  tls_.reset();
  link_.disconnected(std::move(why_), steady_now());
  timer_at_ = Nanoseconds{0};
  serve();
}

void UpstreamConnection::leave() {
  runner_.abandon();
  link_.leave(steady_now());
  serve();
}

void UpstreamConnection::abandon() {
  is_abandoned_ = true;
  asio::error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
  runner_.abandon();
}

}  // namespace locksley::daemon
