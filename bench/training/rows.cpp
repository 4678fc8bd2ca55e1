// SPDX-License-Identifier: Apache-2.0
#include "bench/training/rows.hpp"

#include <algorithm>

#include "bench/main.hpp"

namespace bench {

using nlohmann::json;

void record_times(harness::Result& result, const StepTimes& times, const Strategy& strategy, const Replicas& replicas) {
  record_samples(result, times.step);
  const double step = times.step.seconds;
  const double exposed = step - times.compute;
  const double images = result.point["global_batch"].get<double>() / step;
  result.metrics.update({{"step_seconds", step},
                         {"low", low_of(times.step)},
                         {"high", high_of(times.step)},
                         {"compute_seconds", times.compute},
                         {"communication_seconds", times.communication},
                         {"exposed_seconds", exposed},
                         {"hidden_seconds", times.communication - exposed},
                         {"images_per_second", images},
                         {"images_per_second_per_device", images / replicas.ranks()},
                         {"communication_fraction", std::max(0.0, exposed / step)},
                         {"waiting_seconds", times.waiting},
                         {"idle_seconds", times.idle},
                         {"planted_seconds", times.planted},
                         {"bytes_moved", strategy.bytes_moved() ? json(*strategy.bytes_moved()) : json(nullptr)},
                         {"parameters", replicas.model().whole_size()},
                         {"parameter_bytes", replicas.model().whole_size() * sizeof(float)}});
  json phases = json::object();
  for (const Phase& phase : times.phases) {
    phases[phase.name] = *std::max_element(phase.seconds.begin(), phase.seconds.end());
  }
  result.metrics["forward_seconds"] = phases.at("forward");
  result.metrics["backward_seconds"] = phases.at("backward");
  result.metrics["optimizer_seconds"] = phases.at("update");
  result.extra["phases"] = std::move(phases);
  if (const auto at_root = strategy.root_phases(); !at_root.empty()) {
    double seconds = 0;
    for (const Phase& phase : times.phases) {
      if (std::find(at_root.begin(), at_root.end(), phase.name) != at_root.end()) seconds += phase.seconds[0];
    }
    result.extra["root"] = 0;
    result.metrics["root_seconds"] = seconds;
    result.metrics["root_bytes"] = strategy.bytes_moved().value();
  }
  json buckets = json::array();
  for (const models::Slice& slice : strategy.reductions()) {
    buckets.push_back({{"index", buckets.size()},
                       {"bytes", slice.count * sizeof(float)},
                       {"first", slice.offset},
                       {"count", slice.count}});
  }
  result.extra["buckets"] = buckets;
}

void compare_with_one_device(harness::Result& result, std::span<const harness::Result> rows) {
  for (const harness::Result& other : rows) {
    if (other.point["ranks"] != 1 || !other.metrics.contains("images_per_second")) continue;
    if (other.point["model"] != result.point["model"] || other.point["math"] != result.point["math"]) continue;
    const double alone = other.metrics["images_per_second"];
    const double speedup = result.metrics["images_per_second"].get<double>() / alone;
    result.extra["baseline"] = other.point["device"];
    result.metrics["speedup"] = speedup;
    result.metrics["scaling_efficiency"] = speedup / result.point["ranks"].get<int>();
    return;
  }
}

}  // namespace bench
