// SPDX-License-Identifier: Apache-2.0
#include "harness/sweep.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace harness {
namespace {

using Sizes = std::vector<std::size_t>;
using nlohmann::json;

TEST(Sweep, ARangeWithAFactorEndsAtOrBelowItsEnd) {
  EXPECT_EQ(parse_sizes("1K:64K:x4"), (Sizes{1024, 4096, 16384, 65536}));
  EXPECT_EQ(parse_sizes("1K:60K:x4"), (Sizes{1024, 4096, 16384}));
}

TEST(Sweep, ARangeWithAnIncrementMayBeginAtZero) {
  EXPECT_EQ(parse_sizes("0:3:+1"), (Sizes{0, 1, 2, 3}));
  EXPECT_EQ(parse_sizes("1M:2M:+512K"), (Sizes{1 << 20, 3 << 19, 1 << 21}));
}

TEST(Sweep, ARangeOfOneSizeIsThatSize) {
  EXPECT_EQ(parse_sizes("8:8:x2"), (Sizes{8}));
  EXPECT_EQ(parse_sizes("0:0:+1M"), (Sizes{0}));
}

TEST(Sweep, AListKeepsItsOrderAndMayHoldRanges) {
  EXPECT_EQ(parse_sizes("1K,0,4"), (Sizes{1024, 0, 4}));
  EXPECT_EQ(parse_sizes("0,1K:4K:x2,64"), (Sizes{0, 1024, 2048, 4096, 64}));
}

TEST(Sweep, RangesUpToTheLargestSizeDoNotOverflow) {
  EXPECT_EQ(parse_sizes("1G:18446744073709551615:x1000000").size(), 2u);
  EXPECT_EQ(parse_sizes("17179869183G:18446744073709551615:+1G").size(), 1u);
}

struct Bad {
  const char* text;
  const char* reason;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << '"' << bad.text << '"'; }

class BadSizes : public testing::TestWithParam<Bad> {};
TEST_P(BadSizes, AreRefusedWithTheReason) {
  try {
    parse_sizes(GetParam().text);
    FAIL() << GetParam().text << " was accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().reason), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(
    Sweep, BadSizes,
    testing::Values(Bad{"", "'' is not a size"}, Bad{"1K,,2K", "'' is not a size"}, Bad{"1X", "'1X' is not a size"},
                    Bad{"4K:1K:x2", "begins at 4K, above its end 1K"}, Bad{"4:1:+1", "begins at 4, above its end 1"},
                    Bad{"1:8:x1", "factor '1'"}, Bad{"1:8:x0", "factor '0'"}, Bad{"1:8:x-2", "factor '-2'"},
                    Bad{"1:8:x1.5", "factor '1.5'"}, Bad{"1:8:x", "factor ''"}, Bad{"0:8:x2", "range from 0"},
                    Bad{"1:8:+0", "is 0 bytes"}, Bad{"1:8:+", "'' is not a size"}, Bad{"1:8:2", "the step '2'"},
                    Bad{"1:8", "needs two sizes and a step"}, Bad{"1:8:", "needs two sizes and a step"},
                    Bad{"1:8:x2:x2", "needs two sizes and a step"}, Bad{":8:x2", "'' is not a size"},
                    Bad{"1:64G:+1", "more than 100000 sizes"}, Bad{"1K,1024", "1024 bytes are listed twice"},
                    Bad{"4,1:8:x2", "4 bytes are listed twice"}));

TEST(Sweep, TheFirstAxisChangesSlowest) {
  const auto product = points({{"device", {"cpu:1", "cpu:2"}}, {"bytes", {1, 2, 3}}});
  ASSERT_EQ(product.size(), 6u);
  EXPECT_EQ(product[0], (json{{"device", "cpu:1"}, {"bytes", 1}}));
  EXPECT_EQ(product[1], (json{{"device", "cpu:1"}, {"bytes", 2}}));
  EXPECT_EQ(product[3], (json{{"device", "cpu:2"}, {"bytes", 1}}));
  EXPECT_EQ(product[5], (json{{"device", "cpu:2"}, {"bytes", 3}}));
}

TEST(Sweep, NoAxesMakeOneEmptyPointAndAnEmptyAxisNone) {
  EXPECT_EQ(points({}), (std::vector<json>{json::object()}));
  EXPECT_TRUE(points({{"a", {1}}, {"b", {}}}).empty());
}

}  // namespace
}  // namespace harness
