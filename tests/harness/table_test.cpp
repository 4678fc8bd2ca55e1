// SPDX-License-Identifier: Apache-2.0
#include "harness/table.hpp"

#include <gtest/gtest.h>

#include <sstream>

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

TEST(Table, ARowWithTheWrongNumberOfCellsIsAnError) {
  Table table({{.title = "a"}, {.title = "b"}});
  EXPECT_THROW(table.add({"1"}), Error);
  EXPECT_THROW(table.add({"1", "2", "3"}), Error);
}

}  // namespace
}  // namespace harness
