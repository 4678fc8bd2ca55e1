// SPDX-License-Identifier: Apache-2.0
#include "bench/training/timing.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace bench {

namespace {

using Steps = std::vector<Timed>;

std::vector<Phase> median_phases(const Steps& steps) {
  std::vector<Phase> medians = steps.back().phases;
  for (std::size_t phase = 0; phase < medians.size(); ++phase) {
    for (std::size_t rank = 0; rank < medians[phase].seconds.size(); ++rank) {
      std::vector<double> all;
      for (const auto& step : steps) all.push_back(step.phases[phase].seconds[rank]);
      medians[phase].seconds[rank] = harness::median(all);
    }
  }
  return medians;
}

// Of what a step says of each rank.
std::vector<double> median_by_rank(const Steps& steps, const std::function<std::vector<double>(const Timed&)>& of) {
  std::vector<std::vector<double>> of_rank;
  for (const auto& step : steps) {
    const auto seconds = of(step);
    of_rank.resize(seconds.size());
    for (std::size_t rank = 0; rank < seconds.size(); ++rank) of_rank[rank].push_back(seconds[rank]);
  }
  std::vector<double> medians;
  for (const auto& seconds : of_rank) medians.push_back(harness::median(seconds));
  return medians;
}

// Seconds that all processes agree on: those of the slowest.
double of_slowest(const Replicas& replicas, double seconds) {
  return replicas.world() ? replicas.world()->max(seconds) : seconds;
}

// Steps of one rank each, to steps of all: every process has timed the same steps.
void join_ranks(Steps& steps, harness::World& world) {
  nlohmann::json own = nlohmann::json::array();
  for (const Timed& step : steps) {
    own.push_back({{"planted", step.planted}, {"phases", nlohmann::json::array()}});
    for (const Phase& phase : step.phases) own.back()["phases"].push_back(phase.seconds.at(0));
  }
  const auto texts = world.gather(own.dump());
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto theirs = nlohmann::json::parse(texts[rank]);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i].planted = std::max(steps[i].planted, theirs.at(i)["planted"].get<double>());
      for (std::size_t phase = 0; phase < steps[i].phases.size(); ++phase) {
        auto& seconds = steps[i].phases[phase].seconds;
        seconds.resize(world.size());
        seconds[rank] = theirs[i]["phases"].at(phase);
      }
    }
  }
}

double median_planted(const Steps& steps) {
  std::vector<double> planted;
  for (const auto& step : steps) planted.push_back(step.planted);
  return harness::median(planted);
}

}  // namespace

std::vector<double> compare_steps(std::span<const std::unique_ptr<Strategy>> strategies, Replicas& replicas,
                                  const harness::MeasureSettings& settings) {
  const std::vector<float> initial = replicas.state();
  std::vector<harness::Trial> trials;
  for (const auto& strategy : strategies) {
    trials.push_back({[&](int runs) {
                        double seconds = 0;
                        for (int i = 0; i < runs; ++i) {
                          seconds += of_slowest(replicas, run(*strategy, replicas, Work::step).seconds);
                        }
                        return seconds / runs;
                      },
                      [&] { replicas.restore(initial); }});
  }
  std::vector<double> seconds;
  for (const auto& measured : harness::measure(trials, settings)) seconds.push_back(measured.seconds);
  replicas.restore(initial);
  return seconds;
}

std::vector<StepTimes> time_steps(std::span<const Contender> contenders, const harness::MeasureSettings& settings,
                                  const std::function<void(double)>& shown) {
  std::map<Replicas*, std::vector<float>> initial;
  for (const Contender& contender : contenders) {
    if (!initial.contains(contender.replicas)) initial[contender.replicas] = contender.replicas->state();
  }
  std::vector<Steps> steps(contenders.size());
  std::vector<harness::Trial> trials;
  std::map<std::pair<Replicas*, std::string>, std::size_t> compute_of;  // kind -> trial
  struct Trials {
    std::size_t step = 0, communication = 0;
  };
  std::vector<Trials> trials_of;
  const auto add = [&](const Contender& contender, Work work, Steps* kept) {
    Replicas& replicas = *contender.replicas;
    trials.push_back({[&strategy = *contender.strategy, &replicas, work, kept](int runs) {
                        double seconds = 0;
                        for (int i = 0; i < runs; ++i) {
                          Timed timed = kept ? run_op_by_op(strategy, replicas, work) : run(strategy, replicas, work);
                          seconds += of_slowest(replicas, timed.seconds);
                          if (kept) kept->push_back(std::move(timed));
                        }
                        return seconds / runs;
                      },
                      [&replicas, &state = initial.at(&replicas)] { replicas.restore(state); }});
    return trials.size() - 1;
  };
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const Contender& contender = contenders[i];
    trials_of.push_back({add(contender, Work::step, &steps[i])});
    // A step that is recorded has no phases: those of one that is issued op by op stand for them.
    if (contender.strategy->records()) trials_of.back().step = add(contender, Work::step, nullptr);
    if (contender.replicas->ranks() == 1) continue;
    trials_of.back().communication = add(contender, Work::communication, nullptr);
    const auto kind = std::pair(contender.replicas, contender.kind);
    if (!compute_of.contains(kind)) compute_of[kind] = add(contender, Work::compute, nullptr);
  }
  std::size_t settled = 0;
  const auto measured = harness::measure(trials, settings, [&](std::size_t, const harness::Measurement& now) {
    settled += now.stop ? 1 : 0;
    shown(static_cast<double>(settled) / static_cast<double>(trials.size()));
  });
  for (const auto& [replicas, state] : initial) replicas->restore(state);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (auto* world = contenders[i].replicas->world()) join_ranks(steps[i], *world);
  }

  std::vector<StepTimes> times;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const bool alone = contenders[i].replicas->ranks() == 1;
    StepTimes time{.step = measured[trials_of[i].step]};
    const auto kind = std::pair(contenders[i].replicas, contenders[i].kind);
    time.compute = alone ? time.step.seconds : measured[compute_of[kind]].seconds;
    time.communication = alone ? 0 : measured[trials_of[i].communication].seconds;
    time.phases = median_phases(steps[i]);
    time.waiting = median_by_rank(steps[i], [](const Timed& step) { return waiting_seconds(step.phases); });
    time.idle = median_by_rank(steps[i], [](const Timed& step) { return idle_shares(step.phases, step.seconds); });
    for (double& share : time.idle) share *= time.step.seconds;
    time.planted = median_planted(steps[i]);
    times.push_back(std::move(time));
  }
  return times;
}

}  // namespace bench
