// SPDX-License-Identifier: Apache-2.0
#include "allreduce/published.hpp"

#include <cmath>
#include <map>
#include <sstream>

#include "allreduce/nccl_model.hpp"
#include "allreduce/topology_files.hpp"
#include "harness/error.hpp"
#include "harness/text.hpp"

namespace allreduce {

namespace {

// A line of comma-separated values; quotes may hold commas.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

std::vector<PublishedRow> published_rows() {
  std::istringstream text(embedded_file("published"));
  std::string line;
  std::getline(text, line);
  const auto titles = cells_of(line);
  std::vector<PublishedRow> rows;
  while (std::getline(text, line)) {
    const auto cells = cells_of(line);
    if (cells.size() != titles.size()) throw harness::Error("published.csv: a row with other columns: " + line);
    std::map<std::string, std::string> cell;
    for (std::size_t at = 0; at < cells.size(); ++at) cell[titles[at]] = cells[at];
    PublishedRow row{cell["id"],        cell["machine"], cell["topology"], cell["launch"],
                     cell["algorithm"], cell["source"],  cell["note"]};
    row.bytes = harness::parse_bytes(cell["bytes"]).value();
    row.doubtful = cell["doubtful"] == "yes";
    const auto bytes = static_cast<double>(row.bytes);
    if (!cell["time_us"].empty()) {
      row.seconds = std::stod(cell["time_us"]) * 1e-6;
    } else if (!cell["algbw_GBs"].empty()) {
      row.seconds = bytes / (std::stod(cell["algbw_GBs"]) * 1e9);
    } else {
      const double ranks = find_topology(row.topology, Constants()).size();
      row.seconds = bytes * 2 * (ranks - 1) / ranks / (std::stod(cell["busbw_GBs"]) * 1e9);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<double> simulate_rows(std::span<const PublishedRow> rows, const Constants& constants) {
  std::map<std::string, NcclModel> models;
  std::vector<double> seconds;
  for (const PublishedRow& row : rows) {
    auto model = models.find(row.topology);
    if (model == models.end()) {
      model = models.emplace(row.topology, NcclModel(find_topology(row.topology, constants), constants)).first;
    }
    seconds.push_back(model->second.forecast(row.bytes, {row.algorithm, row.launch == "one_process"}).seconds);
  }
  return seconds;
}

double geometric_error(std::span<const double> simulated, std::span<const double> measured) {
  double sum = 0;
  for (std::size_t at = 0; at < simulated.size(); ++at) sum += std::abs(std::log(simulated[at] / measured[at]));
  return simulated.empty() ? 0 : std::expm1(sum / static_cast<double>(simulated.size()));
}

Constants scaled(const Constants& constants, double latency, double rate) {
  nlohmann::json values = constants.values();
  for (auto& [section, group] : values.items()) {
    for (auto& [name, entries] : group.items()) {
      for (auto& [key, entry] : entries.items()) {
        if (!entry.is_array() || !entry[0].is_number()) continue;
        const double value = entry[0];
        // Rates are billions, times are under a second; shares, factors and the chunk's bytes stay.
        const bool share = key.ends_with("share") || key.find("_share_") != std::string::npos;
        if (value > 1e8) {
          entry[0] = value * rate;
        } else if (value < 1e-3 && !share) {
          entry[0] = value * latency;
        }
      }
    }
  }
  return Constants(std::move(values));
}

}  // namespace allreduce
