// Workers look for jobs, park and are woken, in every interleaving: no job is left lying while a
// worker sleeps who could take it. The proof of it is "No wake-up is lost" in core/README.md.
#include <gtest/gtest.h>

#include <functional>

#include "tests/model/expect.h"
#include "tests/model/explorer.h"
#include "tests/model/small_pool.h"

namespace locksley::model::parking_model {
namespace {

Program one_job_for_one_worker(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.places = 1;
    Worker worker(pool);
    return all_is_taken(explorer, pool, {[&] { pool.submit(0); }, [&] { worker.run(); }});
  };
}

Program one_job_for_two_workers(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.places = 1;
    Worker a(pool), b(pool);
    return all_is_taken(explorer, pool, {[&] { pool.submit(0); }, [&] { a.run(); }, [&] { b.run(); }});
  };
}

// Each takes as long as it takes till both run.
Program two_jobs_for_two_workers(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.places = 2;
    pool.taken_at_once = 2;
    Worker a(pool), b(pool);
    return all_is_taken(explorer, pool,
                        {[&] {
                           pool.submit(0);
                           pool.submit(1);
                         },
                         [&] { a.run(); }, [&] { b.run(); }});
  };
}

// One of two workers leaves, and a job comes.
Program worker_that_leaves(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.places = 1;
    Worker leaves(pool, true), stays(pool);
    explorer.run({[&] {
                    leaves.ask_to_leave();
                    pool.submit(0);
                  },
                  [&] { leaves.run(); }, [&] { stays.run(); }},
                 [&] { return pool.all_taken() && leaves.has_left(); });
    return pool.all_taken() && leaves.has_left();
  };
}

TEST(ParkingModelTest, JobIsTakenByTheOnlyWorker) {
  expect_right(one_job_for_one_worker(), {.preemptions = 5});
}

TEST(ParkingModelTest, JobIsTakenByOneOfTwoWorkers) {
  expect_right(one_job_for_two_workers(), {.preemptions = 3});
}

TEST(ParkingModelTest, TwoJobsAreTakenByTwoWorkers) {
  expect_right(two_jobs_for_two_workers(), {.preemptions = 2});
}

TEST(ParkingModelTest, JobsOfTwoSubmittersAreTakenByTwoWorkers) {
  expect_right(
      [](Explorer& explorer) {
        Pool pool;
        pool.places = 2;
        pool.taken_at_once = 2;
        Worker a(pool), b(pool);
        return all_is_taken(
            explorer, pool,
            {[&] { pool.submit(0); }, [&] { pool.submit(1); }, [&] { a.run(); }, [&] { b.run(); }});
      },
      {.preemptions = 2});
}

TEST(ParkingModelTest, TokenThatIsLeftOverDoesNoHarm) {
  expect_right(
      [](Explorer& explorer) {
        Pool pool;
        pool.places = 1;
        Worker a(pool), b(pool);
        a.unpark();
        return all_is_taken(explorer, pool, {[&] { pool.submit(0); }, [&] { a.run(); }, [&] { b.run(); }});
      },
      {.preemptions = 3});
}

TEST(ParkingModelTest, WorkerThatIsToLeaveDoesAndTakesNoWakeUpWithIt) {
  expect_right(worker_that_leaves(), {.preemptions = 2});
}

TEST(ParkingModelTest, ExplorerFindsTheSleepWithoutALastLook) {
  EXPECT_EQ(failure_of(one_job_for_one_worker({.last_look = false}), {}), Failure::kDeadlock);
}

TEST(ParkingModelTest, ExplorerFindsTheSleepAfterAWeakerPublication) {
  EXPECT_EQ(failure_of(two_jobs_for_two_workers(), {.weaken_stores = true}), Failure::kDeadlock);
}

TEST(ParkingModelTest, ExplorerFindsTheWorkerThatLeavesAsASearcher) {
  EXPECT_EQ(failure_of(worker_that_leaves({.end_search_to_leave = false}), {}), Failure::kDeadlock);
}

TEST(ParkingModelTest, ExplorerFindsTheJobThatASearcherLeavesBehind) {
  EXPECT_EQ(failure_of(two_jobs_for_two_workers({.look_after_search = false}), {}), Failure::kDeadlock);
}

}  // namespace
}  // namespace locksley::model::parking_model
