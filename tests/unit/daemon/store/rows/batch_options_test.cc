// What a command says of a batch, as options of the batch.
#include "daemon/store/rows/batch_options.h"

#include <gtest/gtest.h>

#include <chrono>

namespace locksley::daemon {
namespace {

TEST(StoreOptionsTest, WhatACommandGivesIsAssignedAndTheRestIsKept) {
  BatchOptions options;
  options.tenant = "t";
  options.timeout = std::chrono::milliseconds(77);
  options.retries = 9;
  proto::BatchOptions given;
  given.id = "i";
  given.name = "n";
  given.trace = "x";
  given.weight = 5;
  given.slots = 6;
  given.keep = proto::Keep::kFailures;
  given.retries = 0;
  assign_options(given, options);
  EXPECT_EQ(options.id, "i");
  EXPECT_EQ(options.name, "n");
  EXPECT_EQ(options.trace, "x");
  EXPECT_EQ(options.weight, 5u);
  EXPECT_EQ(options.slots, 6u);
  EXPECT_EQ(options.keep, Keep::kFailures);
  EXPECT_EQ(options.retries, 0u) << "given, though it is zero";
  EXPECT_EQ(options.max_fails, 0u);
  EXPECT_EQ(options.timeout, std::chrono::milliseconds(77)) << "not given";
  EXPECT_EQ(options.tenant, "t");
}

}  // namespace
}  // namespace locksley::daemon
