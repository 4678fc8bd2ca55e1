// SPDX-License-Identifier: Apache-2.0
#include "models/bucket.hpp"

#include <gtest/gtest.h>

namespace models {
namespace {

// Three layers with a weight and a bias each, of 8 to 4000 bytes, laid out from the last to the first.
std::vector<Parameter> parameters() {
  std::vector<Parameter> table(6);
  const std::vector<std::size_t> counts = {1000, 10, 500, 5, 20, 2};
  const std::vector<std::size_t> offsets = {527, 1527, 22, 522, 0, 20};
  for (int i = 0; i < 6; ++i) {
    table[i].layer = 3 * (i / 2);
    table[i].count = counts[i];
    table[i].offset = offsets[i];
  }
  return table;
}

TEST(Buckets, CoverTheArenaWithoutGapsForAnySize) {
  for (const std::size_t bytes : {0, 1, 100, 2000, 2100, 100000}) {
    std::size_t end = 0;
    for (const Bucket& bucket : buckets(parameters(), {bytes, 50})) {
      EXPECT_EQ(bucket.slice.offset, end);
      EXPECT_GT(bucket.slice.count, 0U);
      end += bucket.slice.count;
    }
    EXPECT_EQ(end, 1537U) << bytes;
  }
}

TEST(Buckets, OfNoBytesAreTheParametersFromTheLastLayerToTheFirst) {
  const auto result = buckets(parameters(), {0, 0});
  ASSERT_EQ(result.size(), 6U);
  EXPECT_EQ(result[0].slice, (Slice{0, 20}));
  EXPECT_EQ(result[2].slice, (Slice{22, 500}));
  EXPECT_EQ(result[5].slice, (Slice{1527, 10}));
}

TEST(Buckets, HoldNoMoreThanTheirSizeUnlessOneParameterDoes) {
  const auto result = buckets(parameters(), {2100, 2100});
  ASSERT_EQ(result.size(), 4U);
  EXPECT_EQ(result[0].slice, (Slice{0, 522}));
  EXPECT_EQ(result[1].slice, (Slice{522, 5}));
  EXPECT_EQ(result[2].slice, (Slice{527, 1000}));
  EXPECT_EQ(result[3].slice, (Slice{1527, 10}));
}

TEST(Buckets, AreCompleteAfterTheLastOfTheirLayers) {
  const auto result = buckets(parameters(), {100000, 100});
  ASSERT_EQ(result.size(), 2U);
  EXPECT_EQ(result[0].layers, (std::vector<int>{6}));
  EXPECT_EQ(result[1].layers, (std::vector<int>{3, 0}));
}

TEST(Buckets, OfTheFirstSizeComeFirstAndOnlyOnce) {
  const auto result = buckets(parameters(), {100000, 80});
  ASSERT_EQ(result.size(), 2U);
  EXPECT_EQ(result[0].slice, (Slice{0, 20}));
}

}  // namespace
}  // namespace models
