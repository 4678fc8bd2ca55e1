// SPDX-License-Identifier: Apache-2.0
// Aligned columns on stdout. Rows can be printed one by one while a run goes on (each column as wide as it was declared
// or as its title), or all at once with the widths that they need. ASCII only: a cell's width is its number of bytes.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace harness {

struct Column {
  std::string title = {};
  bool left = false;      // words; numbers stand on the right
  std::size_t width = 0;  // at least
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  void add(std::vector<std::string> cells);  // one for each column, or Error; widens the columns
  void print(std::ostream& out) const;       // the header and all rows that were added

  void print_header(std::ostream& out) const;
  void print_row(std::ostream& out, const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace harness
