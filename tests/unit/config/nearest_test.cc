#include "config/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace locksley::config {
namespace {

const std::vector<std::string> kKeys{"share", "quantum", "reserved_workers", "port", "path"};

TEST(NearestNameTest, OneSlipIsForgiven) {
  EXPECT_EQ(nearest_name("quantom", kKeys), "quantum");   // changed
  EXPECT_EQ(nearest_name("quantm", kKeys), "quantum");    // left out
  EXPECT_EQ(nearest_name("quanttum", kKeys), "quantum");  // added
  EXPECT_EQ(nearest_name("qauntum", kKeys), "quantum");   // swapped
  EXPECT_EQ(nearest_name("Quantum", kKeys), "quantum");   // letter case
  EXPECT_EQ(nearest_name("prot", kKeys), "port");
  EXPECT_EQ(nearest_name("reserved-worker", kKeys), "reserved_workers");
}

TEST(NearestNameTest, TheNearerNameWins) {
  EXPECT_EQ(nearest_name("pat", kKeys), "path");
  EXPECT_EQ(nearest_name("pot", kKeys), "port");
}

TEST(NearestNameTest, WhatIsFarFromAllGetsNothing) {
  EXPECT_EQ(nearest_name("", kKeys), "");
  EXPECT_EQ(nearest_name("x", kKeys), "");
  EXPECT_EQ(nearest_name("banana", kKeys), "");
  EXPECT_EQ(nearest_name("quantum", {}), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'q'), kKeys), "");
}

}  // namespace
}  // namespace locksley::config
