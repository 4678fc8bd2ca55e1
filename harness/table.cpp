// SPDX-License-Identifier: Apache-2.0
#include "harness/table.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "harness/error.hpp"

namespace harness {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t shortest_bar = 10;  // a shorter one tells nothing
constexpr std::size_t longest_bar = 30;
constexpr const char* bold = "\x1b[1m";
constexpr const char* red = "\x1b[31m";
constexpr const char* plain = "\x1b[0m";

}  // namespace

Table::Table(std::vector<Column> columns, Screen screen) : screen_(screen) {
  for (Column& column : columns) {
    column.width = std::max(column.width, column.title.size());
    places_.push_back({std::move(column)});
  }
}

void Table::add(std::vector<std::string> cells) {
  if (cells.size() != places_.size()) {
    throw Error("a row of " + std::to_string(cells.size()) + " cells in a table of " + std::to_string(places_.size()) +
                " columns");
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    places_[i].column.width = std::max(places_[i].column.width, cells[i].size());
  }
  rows_.push_back(std::move(cells));
}

void Table::print(std::ostream& out) const {
  print_header(out);
  for (const auto& cells : rows_) print_row(out, cells);
}

void Table::only(std::string_view title, std::string text) {
  const auto found =
      std::find_if(places_.begin(), places_.end(), [&](const Place& place) { return place.column.title == title; });
  if (found == places_.end()) throw Error("no column of the table has the title " + std::string(title));
  found->only = std::move(text);
}

std::size_t Table::width() const {
  std::size_t sum = 0;
  for (const Place& place : places_) {
    if (!left_out(place)) sum += place.column.width + gap;
  }
  return sum - gap;
}

bool Table::left_out(const Place& place) const {
  if (screen_.width == 0 || !place.only) return false;
  std::size_t all = 0;
  for (const Place& one : places_) all += one.column.width + gap;
  return all - gap > screen_.width;
}

void Table::print_header(std::ostream& out) const {
  std::string same;
  for (const Place& place : places_) {
    if (left_out(place)) same.append(same.empty() ? "# " : ", ").append(place.column.title + ' ' + *place.only);
  }
  if (!same.empty()) out << same << '\n';
  std::vector<std::string> titles;
  for (const Place& place : places_) titles.push_back(place.column.title);
  out << (screen_.colour ? bold : "") << row(titles) << (screen_.colour ? plain : "") << '\n';
}

void Table::print_row(std::ostream& out, const std::vector<std::string>& cells, const Look& look) const {
  std::string line = row(cells);
  const std::size_t begin = width() + gap;
  if (look.bar && std::isfinite(*look.bar) && screen_.width >= begin + shortest_bar && line.size() <= begin) {
    const std::size_t most = std::min(longest_bar, screen_.width - begin);
    const auto length =
        static_cast<std::size_t>(std::lround(std::clamp(*look.bar, 0.0, 1.0) * static_cast<double>(most)));
    line.resize(begin, ' ');
    line.append(length, '#');
    line.erase(line.find_last_not_of(' ') + 1);
  }
  const bool coloured = screen_.colour && look.wrong;
  out << (coloured ? red : "") << line << (coloured ? plain : "") << '\n';
}

std::string Table::row(const std::vector<std::string>& cells) const {
  std::string line;
  bool first = true;
  for (std::size_t i = 0; i < std::min(cells.size(), places_.size()); ++i) {
    const Column& column = places_[i].column;
    if (left_out(places_[i])) continue;
    const std::string padding(column.width - std::min(column.width, cells[i].size()), ' ');
    if (!std::exchange(first, false)) line.append(gap, ' ');
    line += column.left ? cells[i] + padding : padding + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace harness
