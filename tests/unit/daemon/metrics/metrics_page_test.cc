// The content of /metrics: every metric of the manual that has a source, with exactly its labels,
// and the numbers of a pool that ran.
#include "daemon/metrics/metrics_page.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <deque>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/lane/lane_view.h"
#include "daemon/metrics/process_metrics.h"
#include "daemon/metrics/scheduler_metrics.h"
#include "daemon/metrics/server_metrics.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

using LabelNames = std::set<std::string>;

// Types and labels by name, without `le` of histograms. Metrics of the store have no source here.
const std::map<std::string, std::pair<std::string, LabelNames>> kManual = {
    {"locksley_worker_queue_depth", {"gauge", {"worker"}}},
    {"locksley_worker_steals_total", {"counter", {"worker"}}},
    {"locksley_worker_steal_attempts_total", {"counter", {"worker"}}},
    {"locksley_worker_stolen_jobs_total", {"counter", {"worker"}}},
    {"locksley_worker_jobs_total", {"counter", {"worker"}}},
    {"locksley_worker_parks_total", {"counter", {"worker"}}},
    {"locksley_worker_empty_wakes_total", {"counter", {"worker"}}},
    {"locksley_worker_busy_seconds_total", {"counter", {"worker"}}},
    {"locksley_lane_queued_jobs", {"gauge", {"lane"}}},
    {"locksley_lane_running_jobs", {"gauge", {"lane"}}},
    {"locksley_lane_active_batches", {"gauge", {"lane"}}},
    {"locksley_lane_slots", {"gauge", {"lane"}}},
    {"locksley_batch_queue_depth", {"gauge", {"lane", "rank"}}},
    {"locksley_tenant_queued_jobs", {"gauge", {"tenant"}}},
    {"locksley_tenant_share_ratio", {"gauge", {"tenant"}}},
    {"locksley_tenant_busy_seconds_total", {"counter", {"tenant"}}},
    {"locksley_ring_claims_total", {"counter", {"lane"}}},
    {"locksley_ring_wait_seconds", {"histogram", {"lane"}}},
    {"locksley_batches_total", {"counter", {"handler", "event"}}},
    {"locksley_jobs_total", {"counter", {"handler", "status"}}},
    {"locksley_job_duration_seconds", {"histogram", {"handler"}}},
    {"locksley_batch_wait_seconds", {"histogram", {"handler"}}},
    {"locksley_batch_duration_seconds", {"histogram", {"handler"}}},
    {"locksley_handler_failed_starts_total", {"counter", {"handler"}}},
    {"locksley_connections", {"gauge", {}}},
    {"locksley_commands_total", {"counter", {"command"}}},
    {"locksley_command_errors_total", {"counter", {"code"}}},
    {"locksley_received_bytes_total", {"counter", {}}},
    {"locksley_sent_bytes_total", {"counter", {}}},
    {"locksley_queued_bytes", {"gauge", {}}},
    {"locksley_build_info", {"gauge", {"version", "revision"}}},
    {"process_cpu_seconds_total", {"counter", {}}},
    {"process_resident_memory_bytes", {"gauge", {}}},
    {"process_virtual_memory_bytes", {"gauge", {}}},
    {"process_open_fds", {"gauge", {}}},
    {"process_max_fds", {"gauge", {}}},
    {"process_start_time_seconds", {"gauge", {}}},
};

// Parses the text as a scraper does.
struct Page {
  explicit Page(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      if (line.starts_with("# ")) {
        std::string mark, kind, name, rest;
        words >> mark >> kind >> name;
        std::getline(words >> std::ws, rest);
        (kind == "TYPE" ? types : helps)[name] = rest;
        continue;
      }
      const std::size_t value_at = line.rfind(' ');
      const std::string series = line.substr(0, value_at);
      EXPECT_FALSE(values.contains(series)) << "written twice: " << series;
      values[series] = std::stod(line.substr(value_at + 1));
      const std::size_t brace = std::min(series.find('{'), series.size());
      LabelNames names;
      for (std::size_t at = brace + 1; at < series.size();) {
        const std::size_t equals = series.find("=\"", at);
        names.insert(series.substr(at, equals - at));
        at = series.find('"', equals + 2) + 2;
      }
      names.erase("le");
      labels[series.substr(0, brace)] = names;
    }
  }
  double at(const std::string& series) const {
    const auto found = values.find(series);
    if (found == values.end()) ADD_FAILURE() << "no series " << series;
    return found == values.end() ? -1 : found->second;
  }

  std::map<std::string, std::string> types, helps;
  std::map<std::string, LabelNames> labels;  // by sample name, such as x_bucket
  std::map<std::string, double> values;
};

class MetricsPageTest : public locksley::testing::PoolFixture {
 protected:
  MetricsPageTest() {
    const std::vector<std::string> names = {"test"};
    stats.emplace(names);
    run = &handler([](JobContext& context, std::string_view payload) {
      if (payload == "3") return context.fail("three");
      context.write(payload);
    });
    shown = {.lanes = {&lane}, .handlers = {run}};
    scheduler.emplace(pool, *stats, [this] { return shown; }, SchedulerMetrics::Limits{.deepest_batches = 3});
    page.add_long([this] { return scheduler->read(); });
    page.add([this](Families& families) { read_server_metrics(*stats, families); });
    page.add(read_process_metrics);
    page.add(read_build_info);
  }

  Handler* run = nullptr;
  std::optional<ServerStats> stats;
  SchedulerMetrics::Shown shown;
  std::optional<SchedulerMetrics> scheduler;
  MetricsPage page;
};

TEST_F(MetricsPageTest, HasEveryMetricOfTheManualWithExactlyItsLabels) {
  // A batch that waits, so that worker time is due to its tenant.
  BatchOptions options;
  options.slots = 1;
  std::atomic<bool> leave = false;
  const auto held =
      submit_range(handler([&](JobContext&, std::string_view) { leave.wait(false); }), 2, options);
  const Page read(page.whole(MetricsFormat::kText));
  leave = true;
  leave.notify_all();
  wait_over(*held);

  for (const auto& [name, expected] : kManual) {
    const auto& [type, labels] = expected;
    ASSERT_TRUE(read.types.contains(name)) << name;
    EXPECT_EQ(read.types.at(name), type) << name;
    EXPECT_GT(read.helps.at(name).size(), 10u) << name;
    EXPECT_EQ(read.labels.at(type == "histogram" ? name + "_bucket" : name), labels) << name;
  }
}

TEST_F(MetricsPageTest, EveryMetricHasHelpAndOnlyCountersEndInTotal) {
  const Page read(page.whole(MetricsFormat::kText));
  for (const auto& [name, type] : read.types) {
    EXPECT_TRUE(read.helps.contains(name)) << name;
    EXPECT_EQ(name.ends_with("_total"), type == "counter") << name;
  }
}

TEST_F(MetricsPageTest, CountsWhatThePoolDid) {
  wait_over(*submit_range(*run, 1000));
  wait_over(*submit_range(*run, 10));
  locksley::testing::wait_until([&] { return lane.view().snapshot(0).executors == 0; }, "all is settled");
  const Page read(page.whole(MetricsFormat::kText));
  EXPECT_EQ(read.at(R"(locksley_jobs_total{handler="test",status="ok"})"), 1008);
  EXPECT_EQ(read.at(R"(locksley_jobs_total{handler="test",status="error"})"), 2);
  EXPECT_EQ(read.at(R"(locksley_jobs_total{handler="test",status="crashed"})"), 0);
  EXPECT_EQ(read.at(R"(locksley_worker_jobs_total{worker="0"})") +
                read.at(R"(locksley_worker_jobs_total{worker="1"})"),
            1010);
  EXPECT_EQ(read.at(R"(locksley_batch_duration_seconds_count{handler="test"})"), 2);
  EXPECT_EQ(read.at(R"(locksley_batch_duration_seconds_bucket{handler="test",le="+Inf"})"), 2);
  EXPECT_EQ(read.at(R"(locksley_lane_queued_jobs{lane="cpu"})"), 0);
  EXPECT_EQ(read.at(R"(locksley_lane_running_jobs{lane="cpu"})"), 0);
  EXPECT_EQ(read.at(R"(locksley_lane_slots{lane="cpu"})"), 2);
  EXPECT_GE(read.at(R"(locksley_ring_claims_total{lane="cpu"})"), 2);
  EXPECT_EQ(read.at(R"(locksley_ring_claims_total{lane="cpu"})"),
            read.at(R"(locksley_ring_wait_seconds_count{lane="cpu"})"));
  EXPECT_GT(read.at(R"(locksley_tenant_busy_seconds_total{tenant="default"})"), 0);
}

TEST_F(MetricsPageTest, RanksTheDeepestBatches) {
  pool.stop();  // so that no job is claimed
  std::vector<std::shared_ptr<Batch>> batches;
  for (const std::uint64_t jobs : {5u, 50u}) batches.push_back(submit_range(*run, jobs));
  const Page read(page.whole(MetricsFormat::kText));
  EXPECT_EQ(read.at(R"(locksley_batch_queue_depth{lane="cpu",rank="1"})"), 50);
  EXPECT_EQ(read.at(R"(locksley_batch_queue_depth{lane="cpu",rank="2"})"), 5);
  EXPECT_EQ(read.at(R"(locksley_batch_queue_depth{lane="cpu",rank="3"})"), 0);
  EXPECT_FALSE(read.values.contains(R"(locksley_batch_queue_depth{lane="cpu",rank="4"})"));
  EXPECT_EQ(read.at(R"(locksley_lane_queued_jobs{lane="cpu"})"), 55);
  EXPECT_EQ(read.at(R"(locksley_lane_active_batches{lane="cpu"})"), 2);
  for (const auto& batch : batches) lane.cancel(*batch, "the test is over");
}

TEST_F(MetricsPageTest, CountsWhatTheServerDid) {
  stats->connections.set(3);
  stats->commands[static_cast<std::size_t>(proto::CommandId::kSubmit)].add(7);
  stats->unknown_commands.add(1);
  stats->count_errors("QUEUEFULL users.bob.max_queued_jobs is 1, and 1 are in use: ...", 2);
  stats->received_bytes.add(123456789012345);
  stats->queued_bytes.set(42);
  stats->count_batch("test", BatchEvent::kAccepted);
  const Page read(page.whole(MetricsFormat::kText));
  EXPECT_EQ(read.at("locksley_connections"), 3);
  EXPECT_EQ(read.at(R"(locksley_commands_total{command="submit"})"), 7);
  EXPECT_EQ(read.at(R"(locksley_commands_total{command="ping"})"), 0);
  EXPECT_EQ(read.at(R"(locksley_commands_total{command="unknown"})"), 1);
  EXPECT_EQ(read.at(R"(locksley_command_errors_total{code="QUEUEFULL"})"), 2);
  EXPECT_EQ(read.at(R"(locksley_queue_full_errors_total{limit="user"})"), 2);
  EXPECT_EQ(read.at(R"(locksley_queue_full_errors_total{limit="all"})"), 0);
  EXPECT_EQ(read.at("locksley_received_bytes_total"), 123456789012345);
  EXPECT_EQ(read.at("locksley_queued_bytes"), 42);
  EXPECT_EQ(read.at(R"(locksley_batches_total{handler="test",event="accepted"})"), 1);
  EXPECT_EQ(read.at(R"(locksley_batches_total{handler="test",event="rejected"})"), 0);
}

TEST_F(MetricsPageTest, EscapesLabels) {
  const Handler odd("a\\b\"c\nd", "", [](JobContext&, std::string_view) {});
  shown.handlers = {&odd};
  EXPECT_THAT(page.whole(MetricsFormat::kText),
              HasSubstr(R"(locksley_jobs_total{handler="a\\b\"c\nd",status="ok"} 0)"));
}

TEST_F(MetricsPageTest, SeriesAreThoseOfTheLanesAndHandlersThatAreShownNow) {
  const Lane other("other", {});
  const Handler gone("gone", "", [](JobContext&, std::string_view) {});
  stats->add_handler("gone");
  const auto series_of = [&](std::string_view label) {
    const Page read(page.whole(MetricsFormat::kText));
    return std::ranges::count_if(
        read.values, [label](const auto& each) { return each.first.find(label) != std::string::npos; });
  };
  const auto of_test = series_of(R"(handler="test")");
  EXPECT_EQ(series_of(R"(handler="gone")"), 0);
  shown = {.lanes = {&lane, &other}, .handlers = {run, &gone}};
  EXPECT_EQ(series_of(R"(handler="gone")"), of_test);
  EXPECT_EQ(series_of(R"(lane="other")"), series_of(R"(lane="cpu")"));
  shown = {.lanes = {&lane}, .handlers = {run}};
  EXPECT_EQ(series_of(R"(handler="gone")"), 0);
  EXPECT_EQ(series_of(R"(lane="other")"), 0);
}

// So that other clients are served meanwhile, however much there is to show.
TEST_F(MetricsPageTest, IsMadeInParts) {
  constexpr auto kPart = 200us;
  constexpr std::size_t kHandlers = 1000;
  std::deque<Handler> many;
  for (std::size_t i = 0; i < kHandlers; ++i) {
    many.emplace_back("h" + std::to_string(i), "", [](JobContext&, std::string_view) {});
    shown.handlers.push_back(&many.back());
  }
  MetricsPage of_scheduler;
  of_scheduler.add_long([this] { return scheduler->read(); });
  for (const MetricsFormat format : {MetricsFormat::kText, MetricsFormat::kOpenMetrics}) {
    // Another page is begun, and given up, meanwhile.
    MetricsPage::Making given_up(of_scheduler, format);
    MetricsPage::Making making(of_scheduler, format);
    EXPECT_FALSE(making.go_on(now() + kPart));
    EXPECT_FALSE(given_up.go_on(now() + kPart));
    std::size_t parts = 2;
    while (!making.go_on(now() + kPart)) ++parts;
    const std::string text = std::move(making).take();
    EXPECT_GT(parts, 5u);
    EXPECT_THAT(text, HasSubstr(R"(locksley_jobs_total{handler="h999",status="ok"} 0)"));
    const std::string type = "# TYPE locksley_job_duration_seconds ";
    EXPECT_EQ(text.find(type), text.rfind(type));
    EXPECT_EQ(std::ranges::count(text, '\n'), std::ranges::count(of_scheduler.whole(format), '\n'));
  }
}

TEST_F(MetricsPageTest, DescribesTheProcess) {
  const Page read(page.whole(MetricsFormat::kText));
  const double now = static_cast<double>(std::time(nullptr));
  EXPECT_GT(read.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(read.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(read.at("process_virtual_memory_bytes"), read.at("process_resident_memory_bytes"));
  EXPECT_GE(read.at("process_open_fds"), 3);
  EXPECT_GT(read.at("process_max_fds"), read.at("process_open_fds"));
  EXPECT_LE(read.at("process_start_time_seconds"), now + 1);
  EXPECT_GT(read.at("process_start_time_seconds"), now - 3600);
}

TEST_F(MetricsPageTest, OpenDescriptorsFollowWhatIsOpened) {
  const double before = Page(page.whole(MetricsFormat::kText)).at("process_open_fds");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(Page(page.whole(MetricsFormat::kText)).at("process_open_fds"), before + 2);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace locksley::daemon
