// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "bench/training/strategy.hpp"
#include "harness/clock.hpp"
#include "harness/device/cuda.hpp"
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

bool records_steps(const Replicas& replicas, const StrategySettings& settings) {
  return settings.launch == allreduce::Launch::graph && harness::is_gpu(replicas.devices()[0]);
}

void Strategy::launch(Work work) {
  std::pair<Work, std::vector<int>> key{work, {}};
  for (int rank = 0; rank < replicas_.here(); ++rank) key.second.push_back(replicas_.images(rank));
  const bool all_compute = std::find(key.second.begin(), key.second.end(), 0) == key.second.end();
  const auto known = records_->find(key);
  if (known == records_->end() || !all_compute) {
    Step step(replicas_, work, Marks::off);
    issue(step);
    records_->try_emplace(std::move(key));
    return;
  }
  if (!known->second) known->second = record(work);
  known->second->launch();
}

std::unique_ptr<harness::Recording> Strategy::record(Work work) {
  return replicas_.devices().record(replicas_.stream(0), [&] {
    const harness::Event fork = replicas_.stream(0).record();
    for (int rank = 1; rank < replicas_.here(); ++rank) replicas_.stream(rank).wait(fork);
    Step step(replicas_, work, Marks::off);
    issue(step);
    for (int rank = 1; rank < replicas_.here(); ++rank) replicas_.stream(0).wait(replicas_.stream(rank).record());
  });
}

Timed run_op_by_op(Strategy& strategy, const Replicas& replicas, Work work) {
  replicas.meet();
  const double planted = replicas.planted_seconds(), begin = harness::steady_seconds();
  Step step(replicas, work);
  strategy.issue(step);
  strategy.sync();
  return {harness::steady_seconds() - begin, replicas.planted_seconds() - planted, step.phases()};
}

Timed run(Strategy& strategy, const Replicas& replicas, Work work) {
  if (!strategy.records()) return run_op_by_op(strategy, replicas, work);
  const double planted = replicas.planted_seconds(), begin = harness::steady_seconds();
  strategy.launch(work);
  strategy.sync();
  return {harness::steady_seconds() - begin, replicas.planted_seconds() - planted};
}

}  // namespace bench
