// SPDX-License-Identifier: Apache-2.0
#include "harness/table.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include "harness/error.hpp"

namespace harness {

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) column.width = std::max(column.width, column.title.size());
}

void Table::add(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw Error("a row of " + std::to_string(cells.size()) + " cells in a table of " + std::to_string(columns_.size()) +
                " columns");
  }
  for (std::size_t i = 0; i < cells.size(); ++i) columns_[i].width = std::max(columns_[i].width, cells[i].size());
  rows_.push_back(std::move(cells));
}

void Table::print(std::ostream& out) const {
  print_header(out);
  for (const auto& row : rows_) print_row(out, row);
}

void Table::print_header(std::ostream& out) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  print_row(out, titles);
}

void Table::print_row(std::ostream& out, const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i) {
    const std::string padding(columns_[i].width - std::min(columns_[i].width, cells[i].size()), ' ');
    if (i > 0) line += "  ";
    line += columns_[i].left ? cells[i] + padding : padding + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

}  // namespace harness
