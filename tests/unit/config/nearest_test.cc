#include "config/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace locksley::config {
namespace {

const std::vector<std::string> kNames{"share", "quantum", "reserved_workers", "port", "path"};

TEST(NearestNameTest, OneSlipIsForgiven) {
  EXPECT_EQ(nearest_name("quantom", kNames), "quantum");   // changed
  EXPECT_EQ(nearest_name("quantm", kNames), "quantum");    // left out
  EXPECT_EQ(nearest_name("quanttum", kNames), "quantum");  // added
  EXPECT_EQ(nearest_name("qauntum", kNames), "quantum");   // swapped
  EXPECT_EQ(nearest_name("Quantum", kNames), "quantum");   // letter case
  EXPECT_EQ(nearest_name("prot", kNames), "port");
  EXPECT_EQ(nearest_name("reserved-worker", kNames), "reserved_workers");
}

TEST(NearestNameTest, TheNearerNameWins) {
  EXPECT_EQ(nearest_name("pat", kNames), "path");
  EXPECT_EQ(nearest_name("pot", kNames), "port");
}

TEST(NearestNameTest, WhatIsFarFromAllGetsNothing) {
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("x", kNames), "");
  EXPECT_EQ(nearest_name("banana", kNames), "");
  EXPECT_EQ(nearest_name("quantum", {}), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'q'), kNames), "");
}

}  // namespace
}  // namespace locksley::config
