// SPDX-License-Identifier: Apache-2.0
// The catalogue of all-reduce algorithms: a name, what is said of it, and the function that writes it down.
#pragma once

#include <span>
#include <string_view>

#include "allreduce/schedule.hpp"

namespace allreduce {

// All to rank 0, which adds them in rank order and sends the sum back: the parameter server of Li et al., "Scaling
// Distributed Machine Learning with the Parameter Server" (OSDI 2014), in its textbook form, with one server, which is
// rank 0. The server's link carries 2(n-1) vectors.
Schedule parameter_server(const Shape& shape);

// A binomial reduction to rank 0 and a binomial broadcast from it: Thakur, Rabenseifner, Gropp, "Optimization of
// Collective Communication Operations in MPICH" (2005), sections 4.3 and 4.4. 2 ceil(log2 n) steps of a whole vector.
Schedule tree(const Shape& shape);

// A reduce-scatter around the ring and an all-gather around it: Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations" (2009). 2(n-1) steps of an n-th of the vector.
Schedule ring(const Shape& shape);

struct Algorithm {
  std::string_view name;
  std::string_view summary;
  Schedule (*build)(const Shape&);
  bool busbw_is_link_speed;  // it moves 2(n-1)/n of the vector over each link, as nccl-tests' busbw supposes
};

std::span<const Algorithm> algorithms();

// The names that were asked for; those of all rows where one of them is "all".
std::vector<std::string> select_algorithms(const std::vector<std::string>& wanted);

// The row of that name, or null.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace allreduce
