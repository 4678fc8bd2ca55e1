// SPDX-License-Identifier: Apache-2.0
#include "harness/table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "harness/error.hpp"

namespace harness {
namespace {

TEST(Table, NumbersStandOnTheRightAndWordsOnTheLeft) {
  Table table({{.title = "algorithm", .left = true}, {.title = "time"}});
  table.add({"ring", "1.50 ms"});
  table.add({"parameter_server", "12 us"});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(),
            "algorithm            time\n"
            "ring              1.50 ms\n"
            "parameter_server    12 us\n");
}

TEST(Table, RowsPrintedOneByOneKeepTheDeclaredWidth) {
  const Table table({{.title = "n", .width = 4}, {.title = "x"}});
  std::ostringstream out;
  table.print_header(out);
  table.print_row(out, {"1", "2"});
  table.print_row(out, {"123456", "2"});
  EXPECT_EQ(out.str(), "   n  x\n   1  2\n123456  2\n");
}

TEST(Table, NoLineEndsInSpaces) {
  Table table({{.title = "name", .left = true}, {.title = "why", .left = true}});
  table.add({"a", ""});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(), "name  why\na\n");
}

TEST(Table, AScreenTooNarrowLeavesOutWhatIsTheSameInEveryRow) {
  for (const std::size_t width : {std::size_t{17}, std::size_t{16}}) {
    Table table({{.title = "bytes"}, {.title = "type"}, {.title = "time"}}, {.width = width});
    table.only("type", "f32");
    std::ostringstream out;
    table.print_header(out);
    table.print_row(out, {"1024", "f32", "2 us"});
    EXPECT_EQ(out.str(),
              width == 17 ? "bytes  type  time\n 1024   f32  2 us\n" : "# type f32\nbytes  time\n 1024  2 us\n");
  }
}

TEST(Table, WithoutATerminalNothingIsLeftOutColouredOrDrawn) {
  Table table({{.title = "bytes"}, {.title = "type"}});
  table.only("type", "f32");
  std::ostringstream out;
  table.print_header(out);
  table.print_row(out, {"1024", "f32"}, {.bar = 0.5, .wrong = true});
  EXPECT_EQ(out.str(), "bytes  type\n 1024   f32\n");
}

TEST(Table, TheBarIsTheShareOfTheRoomThatIsLeft) {
  const Table table({{.title = "busbw"}}, {.width = 27});
  std::ostringstream out;
  for (const double share : {0.0, 0.25, 1.0, 1.5, std::nan("")}) table.print_row(out, {"1"}, {.bar = share});
  table.print_row(out, {"1"});
  const std::string full = "    1  ####################\n";
  EXPECT_EQ(out.str(), "    1\n    1  #####\n" + full + full + "    1\n    1\n");
}

TEST(Table, ABarThatWouldBeTooShortIsNotDrawn) {
  const Table table({{.title = "busbw"}}, {.width = 16});
  std::ostringstream out;
  table.print_row(out, {"1"}, {.bar = 1.0});
  EXPECT_EQ(out.str(), "    1\n");
}

TEST(Table, WhatWentWrongIsRedAndTheHeaderBoldWhereColoursAre) {
  const Table table({{.title = "a"}}, {.width = 80, .colour = true});
  std::ostringstream out;
  table.print_header(out);
  table.print_row(out, {"1"});
  table.print_row(out, {"2"}, {.wrong = true});
  EXPECT_EQ(out.str(), "\x1b[1ma\x1b[0m\n1\n\x1b[31m2\x1b[0m\n");
}

TEST(Table, AColumnThatIsNotThereCannotBeTheSame) {
  Table table({{.title = "a"}});
  EXPECT_THROW(table.only("b", "x"), Error);
}

TEST(Table, ARowWithTheWrongNumberOfCellsIsAnError) {
  Table table({{.title = "a"}, {.title = "b"}});
  EXPECT_THROW(table.add({"1"}), Error);
  EXPECT_THROW(table.add({"1", "2", "3"}), Error);
}

}  // namespace
}  // namespace harness
