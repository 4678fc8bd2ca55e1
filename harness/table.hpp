// SPDX-License-Identifier: Apache-2.0
// Aligned columns on stdout. Rows can be printed one by one while a run goes on (each column as wide as it was declared
// or as its title), or all at once with the widths that they need. ASCII only: a cell's width is its number of bytes.
// On a terminal the table fits itself to the screen: columns that say the same in every row give way, what room is left
// is a bar, and a row that went wrong is red.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/screen.hpp"

namespace harness {

struct Column {
  std::string title = {};
  bool left = false;      // words; numbers stand on the right
  std::size_t width = 0;  // at least
};

struct Look {
  std::optional<double> bar = {};  // of 1, drawn behind the last column
  bool wrong = false;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, Screen screen = {});

  void add(std::vector<std::string> cells);  // one for each column, or Error; widens the columns
  void print(std::ostream& out) const;       // the header and all rows that were added

  // Every row has this text in that column: a screen too narrow for all columns leaves it out, and the header names it.
  // No such column is an Error.
  void only(std::string_view title, std::string text);

  void print_header(std::ostream& out) const;
  void print_row(std::ostream& out, const std::vector<std::string>& cells, const Look& look = {}) const;

 private:
  struct Place {
    Column column;
    std::optional<std::string> only = {};
  };

  std::size_t width() const;  // of a row, without a bar
  bool left_out(const Place& place) const;
  std::string row(const std::vector<std::string>& cells) const;

  std::vector<Place> places_;
  Screen screen_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace harness
