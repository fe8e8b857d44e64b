// Stores of other formats: one that a program of the format before wrote, whose process was killed
// (form_1.tar), and one of a later format.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "daemon/store/embedded/embedded_engine.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;

class EarlierFormTest : public ::testing::Test {
 protected:
  EarlierFormTest() {
    const std::string command = "tar -xf " LOCKSLEY_STORE_FORM_1 " -C " + folder_.path().string();
    if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
  }

  void open() {
    auto opened = Store::open({.path = path_, .engine = embedded_engine()}, testing::silent_log());
    if (!opened) throw std::runtime_error(opened.error().what);
    store = std::move(*opened);
    found.clear();
    const auto read = store->recover([&](StoredBatch batch) {
      const std::string id = batch.accepted.options.id;
      found.emplace(id, std::move(batch));
    });
    if (!read) throw std::runtime_error(read.error().what);
    store->start(outcomes.listener());
  }
  void close() {
    store->stop();
    store.reset();
  }
  std::string results(const std::string& id) {
    std::string texts;
    const StoredBatch& batch = found.at(id);
    store->journal(batch.sequence)->read_rows(0, batch.history.rows, [&](const ResultRow& row) {
      texts += std::string(row.output) + ";";
      return true;
    });
    return texts;
  }
  std::string payloads(const std::string& id) {
    std::string texts;
    std::string scratch;
    for (std::uint64_t job = 0; job < found.at(id).history.jobs; ++job) {
      std::string_view payload;
      store->payloads(found.at(id).sequence)->fetch(job, {&payload, 1}, scratch);
      texts += std::string(payload) + ";";
    }
    return texts;
  }
  std::string form() {
    auto engine = embedded_engine()({.path = path_, .log = testing::silent_log()});
    if (!engine) throw std::runtime_error(engine.error().what);
    const EngineReading reading(**engine);
    std::string text;
    EXPECT_TRUE(reading.get(Table::kIndex, Key(kFormKey), text).value_or(false));
    return text;
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "form_1").string();
  testing::Outcomes outcomes;
  std::unique_ptr<Store> store;
  std::map<std::string, StoredBatch> found;
};

TEST_F(EarlierFormTest, EachBatchIsReadAsItWasWrittenAndTheFormIsTheNewOne) {
  EXPECT_EQ(form(), "locksley 1");
  for (int start = 0; start < 2; ++start) {
    open();
    ASSERT_EQ(found.size(), 5U);
    EXPECT_EQ(results("small"), "a;bb;ccc;");
    EXPECT_EQ(results("ranged"), "0;1;2;");
    EXPECT_EQ(found.at("failed").history.totals.failed(), 1U);
    EXPECT_EQ(payloads("failed"), "x;1;");
    EXPECT_EQ(results("open"), "one;two;");
    EXPECT_FALSE(found.at("open").history.closed);
    EXPECT_EQ(payloads("waits"), "p;q;");
    EXPECT_EQ(found.at("waits").left, (std::vector<IndexRange>{{0, 2}}));
    close();
    EXPECT_EQ(form(), "locksley 2");
  }
}

TEST_F(EarlierFormTest, ItsBatchesAreForgottenWholeAndNewOnesLieBesideThem) {
  open();
  const std::uint64_t next = store->next_sequence();
  EXPECT_EQ(outcomes.await(store->put(accept_batch(next, 2), Urgency::kAwaited)).error, "");
  for (const std::string id : {"small", "failed", "ranged"}) {
    const ForgetBatch forgotten{.sequence = found.at(id).sequence};
    EXPECT_EQ(outcomes.await(store->put(forgotten, Urgency::kAwaited)).error, "");
  }
  close();
  open();
  EXPECT_EQ(found.size(), 3U);
  EXPECT_EQ(payloads("batch-" + std::to_string(next)),
            "payload 0 of " + std::to_string(next) + ";payload 1 of " + std::to_string(next) + ";");
  close();
}

TEST_F(EarlierFormTest, AStoreOfALaterFormatIsRefusedAndStaysAsItIs) {
  open();
  close();
  const auto set_form = [this](std::string_view text) {
    const ThreadRoleScope role(kStoreWriter);
    auto engine = embedded_engine()({.path = path_, .log = testing::silent_log()});
    ASSERT_TRUE(engine.has_value());
    const auto group = (*engine)->new_group();
    group->put(Table::kIndex, Key(kFormKey), text);
    EXPECT_TRUE((*engine)->commit(*group, Engine::Sync::kSynced).has_value());
  };
  set_form("locksley 3");
  const auto opened = Store::open({.path = path_, .engine = embedded_engine()}, testing::silent_log());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().what,
            "the store " + path_ +
                " was written by another version of Locksley (its format is 'locksley 3', this "
                "version's is 'locksley 2'): use that version, or another store");
  EXPECT_EQ(form(), "locksley 3");
  set_form("locksley 2");
  open();
  EXPECT_EQ(found.size(), 5U);
  close();
}

}  // namespace
}  // namespace locksley::daemon
