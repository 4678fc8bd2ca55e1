// SPDX-License-Identifier: Apache-2.0
#include "bench/training/timeline.hpp"

#include <algorithm>
#include <map>

#include "bench/training/reductions.hpp"
#include "harness/clock.hpp"
#include "harness/text.hpp"

namespace bench {

namespace {

constexpr const char* communication_lane = ", communication";
constexpr int steps_before = 2;  // at most: caches and clocks settle within the first step of those that are long
constexpr double seconds_before = 0.1;

std::string lane_of(const Replicas& replicas, int rank) {
  return "rank " + std::to_string(replicas.rank_of(rank)) + ", " + replicas.stream(rank).device().name();
}

bool is_of_layers(const Stretch& stretch) {
  return stretch.phase == "forward" || stretch.phase == "backward" || stretch.phase == "accumulate";
}

// Every process's, by rank; each begins with its own step, which all began together.
std::vector<Span> of_all(const std::vector<Span>& own, harness::World& world) {
  std::vector<Span> all;
  for (const std::string& text : world.gather(as_json(own).dump())) {
    for (const nlohmann::json& span : nlohmann::json::parse(text)) {
      all.push_back({span["lane"], span["kind"], span["name"], span["begin_seconds"], span["end_seconds"]});
    }
  }
  return all;
}

}  // namespace

std::vector<Span> watch_step(Strategy& strategy, Replicas& replicas) {
  const double begin = harness::steady_seconds();
  for (int i = 0; i < steps_before && harness::steady_seconds() - begin < seconds_before; ++i) {
    run(strategy, replicas, Work::step);
  }
  const auto collectives = strategy.collectives();
  for (Reductions* each : collectives) each->watch();
  replicas.watch();
  replicas.meet();
  Step step(replicas, Work::step);
  strategy.issue(step);
  strategy.sync();
  const auto stretches = step.stretches();
  const auto passes = replicas.unwatch();
  std::vector<Watched> watched;
  for (Reductions* each : collectives) {
    for (Watched& one : each->unwatch()) watched.push_back(std::move(one));
  }

  std::vector<Span> timeline;
  for (int rank = 0; rank < replicas.here(); ++rank) {
    const std::string lane = lane_of(replicas, rank);
    const auto first = static_cast<std::ptrdiff_t>(timeline.size());
    for (const Stretch& stretch : stretches) {
      // Layers that were watched are shown themselves. A replica that waits for the all-reduce has nothing to show: the
      // all-reduce has a lane of its own.
      const bool is_shown = stretch.computes ? passes.empty() || !is_of_layers(stretch) : collectives.empty();
      if (stretch.rank != rank || !is_shown) continue;
      timeline.push_back({lane, stretch.phase, stretch.name, stretch.begin, stretch.end});
    }
    for (const Pass& pass : passes) {
      timeline.push_back({lane, pass.is_backward ? "backward" : "forward", replicas.model().layer_name(pass.layer),
                          step.seconds_to(pass.begin[rank], rank), step.seconds_to(pass.end[rank], rank)});
    }
    std::stable_sort(timeline.begin() + first, timeline.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    for (const Watched& one : watched) {
      const std::string name = harness::format_bytes(one.slice.count * sizeof(float));
      timeline.push_back({lane + communication_lane, one.collective, name, one.begin[rank], one.end[rank]});
    }
  }
  return replicas.world() ? of_all(timeline, *replicas.world()) : timeline;
}

double unaccounted_seconds(const std::vector<Span>& timeline) {
  std::map<std::string, std::vector<const Span*>> of_rank;  // a device and its communication together
  for (const Span& span : timeline) of_rank[span.lane.substr(0, span.lane.find(communication_lane))].push_back(&span);
  double most = 0;
  for (auto& [rank, spans] : of_rank) {
    std::ranges::sort(spans, {}, &Span::begin);
    double nothing = 0, end = 0;
    for (const Span* span : spans) {
      nothing += std::max(0.0, span->begin - end);
      end = std::max(end, span->end);
    }
    most = std::max(most, nothing);
  }
  return most;
}

nlohmann::json as_json(const std::vector<Span>& timeline) {
  nlohmann::json spans = nlohmann::json::array();
  for (const Span& span : timeline) {
    spans.push_back({{"lane", span.lane},
                     {"kind", span.kind},
                     {"name", span.name},
                     {"begin_seconds", span.begin},
                     {"end_seconds", span.end}});
  }
  return spans;
}

nlohmann::json chrome_trace(const std::vector<std::string>& titles, const std::vector<std::vector<Span>>& timelines) {
  constexpr double microseconds = 1e6;
  nlohmann::json events = nlohmann::json::array();
  for (std::size_t process = 0; process < timelines.size(); ++process) {
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"tid", 0}, {"args", {{"name", titles[process]}}}});
    std::map<std::string, std::size_t> threads;
    for (const Span& span : timelines[process]) {
      const auto [thread, added] = threads.try_emplace(span.lane, threads.size());
      if (added) {
        events.push_back({{"name", "thread_name"},
                          {"ph", "M"},
                          {"pid", process},
                          {"tid", thread->second},
                          {"args", {{"name", span.lane}}}});
      }
      events.push_back({{"name", span.name},
                        {"cat", span.kind},
                        {"ph", "X"},
                        {"pid", process},
                        {"tid", thread->second},
                        {"ts", span.begin * microseconds},
                        {"dur", (span.end - span.begin) * microseconds}});
    }
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

}  // namespace bench
