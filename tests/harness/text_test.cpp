// SPDX-License-Identifier: Apache-2.0
#include "harness/text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace harness {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Text, SuffixesOfSizesAreBinaryInEitherCase) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("7B"), 7u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("64k"), 65536u);
  EXPECT_EQ(parse_bytes("64KB"), 65536u);
  EXPECT_EQ(parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(parse_bytes("3M"), 3u << 20);
  EXPECT_EQ(parse_bytes("2GiB"), std::size_t{2} << 30);
}

TEST(Text, AFractionOfASizeMustComeToWholeBytes) {
  EXPECT_EQ(parse_bytes("1.5K"), 1536u);
  EXPECT_EQ(parse_bytes("0.0009765625K"), std::nullopt);  // one byte, but in more digits than anyone types
  EXPECT_EQ(parse_bytes("0.125K"), 128u);
  EXPECT_EQ(parse_bytes("2.50000000000M"), (5u << 20) / 2);
  EXPECT_EQ(parse_bytes("1.0"), 1u);
  EXPECT_EQ(parse_bytes("1.5"), std::nullopt);
  EXPECT_EQ(parse_bytes("1.0001K"), std::nullopt);
}

TEST(Text, TheLargestSizeParsesAndOneMoreOverflows) {
  EXPECT_EQ(parse_bytes("18446744073709551615"), std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(parse_bytes("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_bytes("17179869183G"), std::size_t{17179869183u} << 30);
  EXPECT_EQ(parse_bytes("17179869184G"), std::nullopt);
}

class NoSize : public testing::TestWithParam<std::string> {};
TEST_P(NoSize, IsRefused) { EXPECT_EQ(parse_bytes(GetParam()), std::nullopt); }
INSTANTIATE_TEST_SUITE_P(Text, NoSize,
                         testing::Values("", "K", "-1", "+1", "1 K", " 1", "1T", "1KK", "1e3", "0x10", "1.", ".5K",
                                         "1.2.3K", "inf", "K1", "1.-5K"));

TEST(Text, SecondsTakeTheirUnitAndDefaultToSeconds) {
  EXPECT_DOUBLE_EQ(parse_seconds("0.5s").value(), 0.5);
  EXPECT_DOUBLE_EQ(parse_seconds("20ms").value(), 0.02);
  EXPECT_DOUBLE_EQ(parse_seconds("3us").value(), 3e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("7ns").value(), 7e-9);
  EXPECT_DOUBLE_EQ(parse_seconds("2").value(), 2);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5min").value(), 90);
  EXPECT_DOUBLE_EQ(parse_seconds("1e-3").value(), 1e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("0").value(), 0);
}

class NoTime : public testing::TestWithParam<std::string> {};
TEST_P(NoTime, IsRefused) { EXPECT_EQ(parse_seconds(GetParam()), std::nullopt); }
INSTANTIATE_TEST_SUITE_P(Text, NoTime,
                         testing::Values("", "s", "ms", "-1s", "-0", "1 s", "1h", "nan", "inf", "1e400", "2s3", "1s ",
                                         "1S"));

TEST(Text, AnIntegerIsTheWholeStringWithinItsLimits) {
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("5", 5, 6), 5);
  EXPECT_EQ(parse_integer("6", 5, 6), 6);
  for (const char* bad : {"4", "7"}) EXPECT_EQ(parse_integer(bad, 5, 6), std::nullopt) << bad;
  for (const char* bad : {"", "1x", " 1", "1.0", "+1", "9223372036854775808"}) {
    EXPECT_EQ(parse_integer(bad), std::nullopt) << bad;
  }
}

TEST(Text, ARealIsFiniteAndTheWholeString) {
  EXPECT_EQ(parse_real("0.1"), 0.1);
  EXPECT_EQ(parse_real("-1e-3"), -1e-3);
  for (const char* bad : {"", "1,5", "nan", "inf", "1e999", "0.1x", " 1"})
    EXPECT_EQ(parse_real(bad), std::nullopt) << bad;
}

TEST(Text, SizesPrintInTheLargestUnitThatTheyFill) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1234567), "1.18 MiB");
  EXPECT_EQ(format_bytes(100 * 1024), "100 KiB");
  EXPECT_EQ(format_bytes(std::size_t{2048} << 30), "2048 GiB");
}

TEST(Text, TimesPrintWithThreeDigits) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(-3.47e-18), "0 s");
  EXPECT_EQ(format_seconds(2e-12), "0.00200 ns");
  EXPECT_EQ(format_seconds(250e-9), "250 ns");
  EXPECT_EQ(format_seconds(3.214e-6), "3.21 us");
  EXPECT_EQ(format_seconds(1.5e-3), "1.50 ms");
  EXPECT_EQ(format_seconds(12), "12.0 s");
  EXPECT_EQ(format_seconds(-1.5e-3), "-1.50 ms");
  EXPECT_EQ(format_seconds(nan), "n/a");
}

TEST(Text, WhatRoundsUpToTheNextUnitPrintsInIt) {
  EXPECT_EQ(format_seconds(999.6e-6), "1.00 ms");
  EXPECT_EQ(format_seconds(999.4e-6), "999 us");
  EXPECT_EQ(format_bandwidth(999.7e6), "1.00 GB/s");
}

TEST(Text, BandwidthsAreDecimal) {
  EXPECT_EQ(format_bandwidth(12.34e9), "12.3 GB/s");
  EXPECT_EQ(format_bandwidth(850e6), "850 MB/s");
  EXPECT_EQ(format_bandwidth(1.5e3), "1.50 KB/s");
  EXPECT_EQ(format_bandwidth(nan), "n/a");
}

TEST(Text, RealsPrintWithoutAnExponent) {
  EXPECT_EQ(format_real(0), "0");
  EXPECT_EQ(format_real(0.1234), "0.123");
  EXPECT_EQ(format_real(9.999), "10.0");
  EXPECT_EQ(format_real(99.99), "100");
  EXPECT_EQ(format_real(123456), "123456");
  EXPECT_EQ(format_real(-0.001234), "-0.00123");
  EXPECT_EQ(format_real(1e300).size(), 301u);
  EXPECT_EQ(format_percent(0.8301), "83.0 %");
}

TEST(Text, SplittingKeepsEmptyParts) {
  EXPECT_EQ(split("a,b", ','), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(split(",a,", ','), (std::vector<std::string>{"", "a", ""}));
}

TEST(Text, JoiningPutsTheSeparatorBetweenEvenEmptyParts) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "", "b"}, ", "), "a, , b");
  EXPECT_EQ(join({}, ","), "");
}

}  // namespace
}  // namespace harness
