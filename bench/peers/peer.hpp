// SPDX-License-Identifier: Apache-2.0
// What the peers' programs share: PROGRAM ... BYTES SAMPLES RUNS times sums of float32 in place, SAMPLES times RUNS of
// them in a row, and prints one line of JSON: for each sample the seconds of one, by its slowest rank.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace peer {

struct Work {
  std::size_t count;  // elements of 4 bytes
  int samples, runs;
};

inline Work work_of(char** arguments) {
  return {std::strtoull(arguments[0], nullptr, 10) / sizeof(float), std::atoi(arguments[1]), std::atoi(arguments[2])};
}

// Seconds of one all-reduce in each sample, as this rank saw it. `all_reduce` sums `data` over the ranks, `barrier`
// waits for all. Throws where a sum is wrong.
template <class AllReduce, class Barrier>
std::vector<double> measure(const Work& work, int rank, int ranks, std::vector<float>& data, AllReduce all_reduce,
                            Barrier barrier) {
  data.assign(work.count, static_cast<float>(rank + 1));
  all_reduce();
  for (const float value : data) {
    if (value != static_cast<float>(ranks * (ranks + 1) / 2)) throw std::runtime_error("a sum is wrong");
  }
  data.assign(work.count, 0);
  std::vector<double> seconds;
  for (int sample = -1; sample < work.samples; ++sample) {  // the first one is not kept
    barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int run = 0; run < work.runs; ++run) all_reduce();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (sample >= 0) seconds.push_back(took.count() / work.runs);
  }
  return seconds;
}

inline void print(const std::vector<double>& seconds) {
  for (std::size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9g", i == 0 ? "[" : ", ", seconds[i]);
  std::printf("]\n");
}

}  // namespace peer
