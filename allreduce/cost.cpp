// SPDX-License-Identifier: Apache-2.0
#include "allreduce/cost.hpp"

#include <algorithm>

namespace allreduce {

Cost cost(const Schedule& schedule) {
  const int ranks = schedule.shape.ranks;
  std::vector<double> sent(ranks), received(ranks), reduced(ranks);
  std::vector<int> crossings(schedule.ops.size());
  Cost total;
  for (std::size_t id = 0; id < schedule.ops.size(); ++id) {
    const Op& op = schedule.ops[id];
    const double share = static_cast<double>(op.to.count) / schedule.chunks;
    for (const OpId before : op.after) crossings[id] = std::max(crossings[id], crossings[before]);
    if (op.kind == Kind::reduce) {
      reduced[op.to.rank] += share;
    } else if (op.from.rank != op.to.rank) {
      sent[op.from.rank] += share;
      received[op.to.rank] += share;
      ++crossings[id];
    }
    total.steps = std::max(total.steps, crossings[id]);
  }
  total.sent = *std::max_element(sent.begin(), sent.end());
  total.received = *std::max_element(received.begin(), received.end());
  total.reduced = *std::max_element(reduced.begin(), reduced.end());
  total.least_sent = 2.0 * (ranks - 1) / ranks;
  total.least_reduced = total.least_sent / 2;
  while ((1LL << total.least_steps) < ranks) ++total.least_steps;
  return total;
}

}  // namespace allreduce
