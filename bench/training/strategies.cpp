// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "bench/training/strategy.hpp"
#include "harness/clock.hpp"
#include "harness/options.hpp"

namespace bench {

namespace {

using allreduce::Collective;

constexpr std::array rows = {
    StrategyRow{"scratch", "one all-reduce a parameter, after backward", make_scratch, Collective::allreduce},
    StrategyRow{"data_parallel", "all through device 0, which alone has loss and update", make_data_parallel, {}},
    StrategyRow{"distributed", "buckets, while backward goes on", make_distributed, Collective::allreduce, true},
    StrategyRow{"sharded", "each device updates its slice of each bucket", make_sharded, Collective::reduce_scatter,
                true, true},
    StrategyRow{"pipeline",
                "each device has some layers, through which micro-batches go",
                make_pipeline,
                {},
                false,
                false,
                Piece::stage},
    StrategyRow{"tensor", "each device has a part of each linear layer, and all others", make_tensor,
                Collective::allreduce, false, false, Piece::share}};

}  // namespace

std::span<const StrategyRow> strategies() { return rows; }

const StrategyRow& find_strategy(std::string_view name) {
  std::string known;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw harness::bad_value("strategy", name, "allowed: " + known);
}

Timed run(Strategy& strategy, const Replicas& replicas, Work work) {
  const double planted = replicas.planted_seconds(), begin = harness::steady_seconds();
  Step step(replicas, work);
  strategy.issue(step);
  strategy.sync();
  return {harness::steady_seconds() - begin, replicas.planted_seconds() - planted, step.phases()};
}

}  // namespace bench
