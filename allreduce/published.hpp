// SPDX-License-Identifier: Apache-2.0
// What others measured: all-reduce times of public sources (topologies/published.csv), and how far the simulator is
// from them. The error is exp(mean |ln(simulated / measured)|) - 1, the factor by which one is off in the mean.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allreduce/topologies.hpp"

namespace allreduce {

struct PublishedRow {
  std::string id = {}, machine = {}, topology = {}, launch = {}, algorithm = {}, source = {}, note = {};
  std::size_t bytes = 0;
  double seconds = 0;
  bool doubtful = false;
};

std::vector<PublishedRow> published_rows();

// What the model says of the row, in seconds.
std::vector<double> simulate_rows(std::span<const PublishedRow> rows, const Constants& constants);

double geometric_error(std::span<const double> simulated, std::span<const double> measured);

// Constants with every latency of the software, of links and of fabrics times `latency`, and every rate times `rate`.
Constants scaled(const Constants& constants, double latency, double rate);

}  // namespace allreduce
