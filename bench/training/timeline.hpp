// SPDX-License-Identifier: Apache-2.0
// One step from begin to end, part by part: the layers and phases of every replica, and each all-reduce from the moment
// that its gradients are there to its end. Taken from a step of its own, apart from the samples: watching costs time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/training/strategy.hpp"

namespace bench {

struct Span {
  std::string lane;           // what is busy: a device, or its communication
  std::string kind;           // the phase: forward, backward, update; all_reduce
  std::string name;           // the layer of forward and backward (in a pipeline the micro-batch), the bytes of an
                              // all-reduce, else the phase
  double begin = 0, end = 0;  // seconds since the replica of this lane began: their clocks cannot be compared
};

// The last of a few steps, on the loaded batch; the replicas' state changes as in any step.
std::vector<Span> watch_step(Strategy& strategy, Replicas& replicas);

// Seconds of the rank that has most of them in which it did nothing that the timeline shows, up to its last end.
double unaccounted_seconds(const std::vector<Span>& timeline);

// As results/schema.json has it.
nlohmann::json as_json(const std::vector<Span>& timeline);

// Chrome's trace-event format, which Perfetto and chrome://tracing read: a process for each step, named by `titles`,
// with a thread for each lane. "Trace Event Format", Chromium project, 2016. Microseconds.
nlohmann::json chrome_trace(const std::vector<std::string>& titles, const std::vector<std::vector<Span>>& timelines);

}  // namespace bench
