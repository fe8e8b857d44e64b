#include "daemon/workers/state/worker_orders.h"

#include <vector>

#include "core/batch/batch.h"
#include "core/lane/lane.h"

namespace locksley::daemon {

bool WorkerOrders::asks_for(const OutLease& out) const {
  const Batch& batch = out.lease.batch();
  return batch.is_stopping() || batch.is_held() || is_draining_ || out.orders.is_cut();
}

void WorkerOrders::push_orders(RemoteWorker& worker) {
  if (!worker.wants_pushes) return;
  for (const auto& [number, out] : worker.leases) {
    const auto order = order_for(*out);
    if (!order) continue;
    out->orders.note_told(clock_.now());
    if (order->kind == Order::Kind::kStop) {
      if (std::exchange(out->orders.stop_pushed, true)) continue;
    } else {
      // A worker that has not answered for the length of a lease gets the order again.
      std::optional<Nanoseconds>& pushed = out->orders.cut_pushed;
      if (pushed && clock_.now() - *pushed < worker.lease_time) continue;
      pushed = clock_.now();
    }
    push_order(worker, *order);
  }
}

void WorkerOrders::push_stop(const RemoteWorker& worker, const OutLease& out) {
  push_order(worker, {.kind = Order::Kind::kStop, .lease = {life_, out.number}, .at = 0});
}

void WorkerOrders::push_drain(const RemoteWorker& worker) {
  push_order(worker, {.kind = Order::Kind::kDrain});
}

void WorkerOrders::push_life(const RemoteWorker& worker) { push_order(worker, {.kind = Order::Kind::kNone}); }

void WorkerOrders::reply_to_beat(RemoteWorker& worker, std::span<const LeaseName> gone) {
  std::vector<Order> orders;
  // Their results will not be recorded.
  for (const LeaseName& lease : gone) orders.push_back({.kind = Order::Kind::kStop, .lease = lease});
  if (worker.wants_pushes) {
    push_orders(worker);
  } else {
    for (const auto& [number, out] : worker.leases) {
      if (const auto order = order_for(*out)) orders.push_back(*order);
      out->orders.note_told(clock_.now());
    }
    if (is_draining_) orders.push_back({});
  }
  proto::ReplyWriter reply = connections_.reply(worker.connection);
  reply.array(orders.size());
  for (const Order& order : orders) {
    reply.array(words_of(order));
    write_words(reply, order);
  }
}

void WorkerOrders::shorten_leases(RemoteWorker& worker) {
  for (const auto& [number, out] : worker.leases) shorten(worker, *out);
}

void WorkerOrders::shorten(RemoteWorker& worker, OutLease& out) {
  const std::vector<CutPlanner::Cut> cuts = CutPlanner::for_waiting_batches(worker, out, clock_.now());
  if (cuts.empty()) return;
  out.orders.shortened = clock_.now();
  for (const CutPlanner::Cut& cut : cuts) order_cut(cut, /*is_for_idle_worker=*/false);
  push_orders(worker);
}

void WorkerOrders::cut_for_idle_workers(const std::map<Lane*, WaitingClaims>& waiting) {
  if (waiting.empty() || stats_.leases == 0 || is_draining_ || !planner_.may_search(clock_.now())) return;
  planner_.begin_search(stats_.leases, clock_.now());
  for (const auto& [lane, claims] : waiting) {
    for (const CutPlanner::Cut& cut : planner_.for_idle_workers(*lane, claims, clock_.now())) {
      order_cut(cut, /*is_for_idle_worker=*/true);
      push_orders(*cut.worker);
    }
  }
}

std::optional<WorkerOrders::Order> WorkerOrders::order_for(const OutLease& out) const {
  const Batch& batch = out.lease.batch();
  const LeaseName lease{life_, out.number};
  if (batch.is_aborting()) return Order{.kind = Order::Kind::kStop, .lease = lease, .at = 0};
  if (batch.is_stopping() || batch.is_held() || is_draining_) {
    const auto at = out.first_not_started();
    if (!at) return std::nullopt;
    return Order{.kind = Order::Kind::kCut, .lease = lease, .at = *at};
  }
  if (const auto& cut = out.orders.cut)
    return Order{.kind = Order::Kind::kCut, .lease = lease, .at = cut->at};
  return std::nullopt;
}

std::size_t WorkerOrders::words_of(const Order& order) {
  switch (order.kind) {
    case Order::Kind::kCut:
      return 3;
    case Order::Kind::kStop:
      return 2;
    case Order::Kind::kDrain:
    case Order::Kind::kNone:
      break;
  }
  return 1;
}

void WorkerOrders::write_words(proto::ReplyWriter writer, const Order& order) {
  switch (order.kind) {
    case Order::Kind::kCut:
      writer.bulk("CUT");
      writer.bulk(LeaseName::Text(order.lease).view());
      return writer.integer(static_cast<std::int64_t>(order.at));
    case Order::Kind::kStop:
      writer.bulk("STOP");
      return writer.bulk(LeaseName::Text(order.lease).view());
    case Order::Kind::kDrain:
      return writer.bulk("DRAIN");
    case Order::Kind::kNone:
      return writer.bulk("NONE");
  }
}

void WorkerOrders::push_order(const RemoteWorker& worker, const Order& order) {
  if (!worker.wants_pushes) return;
  proto::ReplyWriter writer = connections_.push(worker.connection);
  writer.push(words_of(order));
  write_words(writer, order);
}

void WorkerOrders::order_cut(const CutPlanner::Cut& cut, bool is_for_idle_worker) {
  cut.out->orders.cut = {.at = cut.at, .planned = clock_.now(), .is_for_idle_worker = is_for_idle_worker};
  ++stats_.cut_orders;
}

}  // namespace locksley::daemon
