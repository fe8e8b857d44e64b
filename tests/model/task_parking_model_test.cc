// The same for tasks, which are published without a barrier, and for workers that park while they
// wait for their sub-jobs: no task is left lying while a worker sleeps that could take it.
#include <gtest/gtest.h>

#include <functional>

#include "tests/model/expect.h"
#include "tests/model/explorer.h"
#include "tests/model/small_pool.h"

namespace locksley::model::task_parking_model {
namespace {

Program one_task_for_a_worker(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.spawner = true;
    Worker worker(pool);
    return all_is_taken(explorer, pool, {[&] { pool.spawn(); }, [&] { worker.run(); }});
  };
}

Program one_task_for_a_helper(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.spawner = true;
    Worker helper(pool);
    EndlessCount count;
    return all_is_taken(explorer, pool, {[&] { pool.spawn(); }, [&] { helper.wait(count); }});
  };
}

// One worker searches, and finds a job that takes until another worker has taken the task. Then
// there is another worker, or a helper.
Program task_beside_a_job(bool helper, const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.spawner = true;
    pool.places = 1;
    pool.taken_at_once = 2;
    Worker searcher(pool), other(pool);
    EndlessCount count;
    searcher.begin_search();
    pool.submit(0);
    return all_is_taken(explorer, pool,
                        {[&] { pool.spawn(); }, [&] { searcher.run(); },
                         [&] {
                           if (helper) {
                             other.wait(count);
                           } else {
                             other.run();
                           }
                         }});
  };
}

// Two tasks come up while a worker searches, so that they wake none; then the searcher finds a job.
Program two_tasks_beside_a_job(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.spawner = true;
    pool.places = 1;
    pool.taken_at_once = 3;
    Worker searcher(pool), a(pool), b(pool);
    EndlessCount count_a, count_b;
    searcher.begin_search();
    pool.submit(0);
    // The spawner and the searcher are one thread: what they do at the same time is the test
    // before.
    return all_is_taken(explorer, pool,
                        {[&] {
                           pool.spawn();
                           pool.spawn();
                           searcher.run();
                         },
                         [&] { a.wait(count_a); }, [&] { b.wait(count_b); }});
  };
}

// Of two helpers one may find, when it is woken for the task, that it need not wait any more.
Program task_for_a_helper_that_is_done(const Rules& rules = {}) {
  return [=](Explorer& explorer) {
    Pool pool(rules);
    pool.spawner = true;
    Worker done(pool), other(pool);
    ModelCount count;
    count.spawned();
    EndlessCount endless;
    explorer.run({[&] {
                    pool.spawn();
                    done.finish_for(count);
                  },
                  [&] { done.wait(count); }, [&] { other.wait(endless); }},
                 [&] { return pool.all_taken(); });
    return count.is_done();
  };
}

TEST(TaskParkingModelTest, TaskIsTakenByAWorkerThatParks) {
  expect_right(one_task_for_a_worker(), {.preemptions = 4});
}

TEST(TaskParkingModelTest, TaskIsTakenByAHelper) {
  expect_right(one_task_for_a_helper(), {.preemptions = 4});
}

TEST(TaskParkingModelTest, TaskBesideAJobIsTakenByAnotherWorker) {
  expect_right(task_beside_a_job(false), {.preemptions = 2});
}

TEST(TaskParkingModelTest, TaskBesideAJobIsTakenByAHelper) {
  expect_right(task_beside_a_job(true), {.preemptions = 2});
}

TEST(TaskParkingModelTest, TwoTasksBesideAJobAreTakenByTwoHelpers) {
  expect_right(two_tasks_beside_a_job(), {.preemptions = 1});
}

TEST(TaskParkingModelTest, HelperThatIsDonePassesItsWakeUpOn) {
  expect_right(task_for_a_helper_that_is_done(), {.preemptions = 2});
}

TEST(TaskParkingModelTest, HelperGetsBothItsTaskAndTheEndOfItsOwn) {
  expect_right(
      [](Explorer& explorer) {
        Pool pool;
        pool.spawner = true;
        Worker helper(pool);
        ModelCount count;
        count.spawned();
        explorer.run({[&] { pool.spawn(); }, [&] { helper.finish_for(count); }, [&] { helper.wait(count); }});
        return count.is_done() && !pool.idle.has_parked_worker();
      },
      {.preemptions = 3});
}

TEST(TaskParkingModelTest, ExplorerFindsTheTaskThatNobodySeesWithoutAHeavyBarrier) {
  EXPECT_EQ(failure_of(one_task_for_a_worker(), {.weaken_barriers = true}), Failure::kDeadlock);
  EXPECT_EQ(failure_of(one_task_for_a_helper(), {.weaken_barriers = true}), Failure::kDeadlock);
  EXPECT_EQ(failure_of(one_task_for_a_worker({.barrier_to_park = false}), {}), Failure::kDeadlock);
  EXPECT_EQ(failure_of(task_beside_a_job(true, {.barrier_after_search = false}), {}), Failure::kDeadlock);
}

TEST(TaskParkingModelTest, ExplorerFindsTheTaskThatNobodySeesWithoutALastLook) {
  EXPECT_EQ(failure_of(one_task_for_a_worker({.last_look = false}), {}), Failure::kDeadlock);
  EXPECT_EQ(failure_of(one_task_for_a_helper({.last_look = false}), {}), Failure::kDeadlock);
}

TEST(TaskParkingModelTest, ExplorerFindsTheTaskThatASearcherLeavesBehind) {
  EXPECT_EQ(failure_of(task_beside_a_job(true, {.look_after_search = false}), {}), Failure::kDeadlock);
}

TEST(TaskParkingModelTest, ExplorerFindsTheFlagThatTheFirstTaskOvertakes) {
  const Program program = task_beside_a_job(true, {.look_before_tasks = false});
  EXPECT_EQ(failure_of(program, {.memory = Memory::kWeak}), Failure::kDeadlock);
}

TEST(TaskParkingModelTest, ExplorerFindsTheWakeUpThatAHelperKeeps) {
  EXPECT_EQ(failure_of(two_tasks_beside_a_job({.pass_on = false}), {}), Failure::kDeadlock);
  EXPECT_EQ(failure_of(task_for_a_helper_that_is_done({.pass_on = false}), {}), Failure::kDeadlock);
}

}  // namespace
}  // namespace locksley::model::task_parking_model
