// SPDX-License-Identifier: Apache-2.0
// What a training step would take on a described machine: the layers' times as bench_model measured them on one device
// (--profile), the collectives as simulated on --topology, overlapped as the real strategies overlap them. Nothing here
// is measured again, and every row says that it is simulated.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/training/profile.hpp"
#include "harness/options.hpp"

namespace bench {

std::vector<harness::Option> forecast_options();

// Gradients that are reduced together: complete once backward has done its last layer.
struct GradientBucket {
  std::vector<std::string> layers = {};
  std::size_t bytes = 0;
  double ready_seconds = 0, begin_seconds = 0, end_seconds = 0;  // since the step began
};

struct StepForecast {
  double forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0, communication_seconds = 0, step_seconds = 0;
  std::map<std::string, double> phases = {};  // of the communication, by what the strategies call them
  std::vector<GradientBucket> buckets = {};

  double compute_seconds() const { return forward_seconds + backward_seconds + optimizer_seconds; }
};

struct StepPlan {
  std::size_t bucket_bytes = 0;        // 0: each layer's gradients are a bucket
  std::size_t first_bucket_bytes = 0;  // of the first one
  bool overlap = true;                 // a bucket is reduced while backward goes on
  int updating = 1;                    // devices that share out the update
};

// What a strategy communicates, and how long that takes.
struct Exchange {
  std::string phase;
  std::function<double(std::size_t bytes)> seconds;
  std::size_t bytes = 0;
};
struct Communication {
  Exchange reduce;                      // of each bucket, one after the other
  std::optional<Exchange> gather = {};  // of each bucket, after the update
  std::vector<Exchange> between = {};   // of so many bytes between the phases, while nobody computes
};

// `layers` from the first to the last.
StepForecast forecast_step(const std::vector<LayerTimes>& layers, double optimizer_seconds, const StepPlan& plan,
                           const Communication& communication);

// All of bench_train with --engine=simulated; the exit status.
int run_forecast(const harness::Options& options);

}  // namespace bench
