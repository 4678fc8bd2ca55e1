// SPDX-License-Identifier: Apache-2.0
#include "bench/training/timing.hpp"

#include <map>

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

std::vector<double> median_waiting(const Steps& steps) {
  std::vector<std::vector<double>> of_rank;
  for (const auto& step : steps) {
    const auto waiting = waiting_seconds(step.phases);
    of_rank.resize(waiting.size());
    for (std::size_t rank = 0; rank < waiting.size(); ++rank) of_rank[rank].push_back(waiting[rank]);
  }
  std::vector<double> medians;
  for (const auto& waiting : of_rank) medians.push_back(harness::median(waiting));
  return medians;
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
                        for (int i = 0; i < runs; ++i) seconds += run(*strategy, replicas, Work::step).seconds;
                        return seconds / runs;
                      },
                      [&] { replicas.restore(initial); }});
  }
  std::vector<double> seconds;
  for (const auto& measured : harness::measure(trials, settings)) seconds.push_back(measured.seconds);
  replicas.restore(initial);
  return seconds;
}

std::vector<StepTimes> time_steps(std::span<const Contender> contenders, Replicas& replicas,
                                  const harness::MeasureSettings& settings) {
  const std::vector<float> initial = replicas.state();
  const bool alone = replicas.ranks() == 1;
  std::vector<Steps> steps(contenders.size());
  std::vector<harness::Trial> trials;
  std::map<std::string, std::size_t> compute_of;  // kind -> trial
  struct Trials {
    std::size_t step = 0, communication = 0;
  };
  std::vector<Trials> trials_of;
  const auto add = [&](Strategy& strategy, Work work, Steps* kept) {
    trials.push_back({[&strategy, &replicas, work, kept](int runs) {
                        double seconds = 0;
                        for (int i = 0; i < runs; ++i) {
                          Timed timed = run(strategy, replicas, work);
                          seconds += timed.seconds;
                          if (kept) kept->push_back(std::move(timed));
                        }
                        return seconds / runs;
                      },
                      [&] { replicas.restore(initial); }});
    return trials.size() - 1;
  };
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Strategy& strategy = *contenders[i].strategy;
    trials_of.push_back({add(strategy, Work::step, &steps[i])});
    if (alone) continue;
    trials_of.back().communication = add(strategy, Work::communication, nullptr);
    if (!compute_of.contains(contenders[i].kind)) {
      compute_of[contenders[i].kind] = add(strategy, Work::compute, nullptr);
    }
  }
  const auto measured = harness::measure(trials, settings);
  replicas.restore(initial);

  std::vector<StepTimes> times;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    StepTimes time{.step = measured[trials_of[i].step]};
    time.compute = alone ? time.step.seconds : measured[compute_of[contenders[i].kind]].seconds;
    time.communication = alone ? 0 : measured[trials_of[i].communication].seconds;
    time.phases = median_phases(steps[i]);
    time.waiting = median_waiting(steps[i]);
    time.planted = median_planted(steps[i]);
    times.push_back(std::move(time));
  }
  return times;
}

}  // namespace bench
