// SPDX-License-Identifier: Apache-2.0
#include "bench/training/table.hpp"

#include <unistd.h>

#include <cmath>
#include <iostream>
#include <numeric>

#include "bench/main.hpp"
#include "bench/training/sweep.hpp"
#include "harness/text.hpp"

namespace bench {

using nlohmann::json;

namespace {

// Of all that a device could compute in a step, what it did not: the mean over the devices.
double idle_share(const harness::Result& result) {
  const std::vector<double> idle = result.metrics.value("idle_seconds", std::vector<double>{});
  if (idle.empty()) return std::nan("");
  const double all = std::accumulate(idle.begin(), idle.end(), 0.0);
  return all / static_cast<double>(idle.size()) / result.metrics["step_seconds"].get<double>();
}

}  // namespace

std::vector<harness::Column> with_step_columns(std::vector<harness::Column> before,
                                               const std::vector<harness::Column>& behind) {
  const std::vector<harness::Column> step = {{.title = "strategy", .left = true, .width = 13},
                                             {.title = "algorithm", .left = true, .width = 18},
                                             {.title = "overlap", .left = true, .width = 7},
                                             {.title = "batch", .width = 6},
                                             {.title = "step", .width = 9},
                                             {.title = "compute", .width = 9},
                                             {.title = "comm.", .width = 9},
                                             {.title = "exposed", .width = 9},
                                             {.title = "moved", .width = 8},
                                             {.title = "images/s", .width = 9},
                                             {.title = "speed-up", .width = 8}};
  before.insert(before.end(), step.begin(), step.end());
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

std::vector<std::string> with_step_cells(std::vector<std::string> before, const harness::Result& result,
                                         const std::vector<std::string>& behind) {
  const auto metric = [&](const char* name) { return metric_of(result, name); };
  const auto seconds = [&](const char* name) { return harness::format_seconds(metric(name)); };
  const auto text = [&](const char* name) {
    return result.point[name].is_null() ? "n/a" : result.point[name].get<std::string>();
  };
  const double moved = metric("bytes_moved");
  const std::vector<std::string> step = {
      text("strategy"),
      text("algorithm"),
      text("overlap"),
      std::to_string(result.point["global_batch"].get<std::size_t>()),
      seconds("step_seconds"),
      seconds("compute_seconds"),
      seconds("communication_seconds"),
      seconds("exposed_seconds"),
      std::isnan(moved) ? "n/a" : harness::format_bytes(static_cast<std::size_t>(moved)),
      harness::format_real(metric("images_per_second"), 4),
      harness::format_real(metric("speedup"))};
  before.insert(before.end(), step.begin(), step.end());
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

TrainingTable::TrainingTable(const std::vector<json>& points)
    : columns_(with_step_columns(
                   {{.title = "model", .left = true, .width = 8},
                    {.title = "device", .left = true, .width = 7},
                    {.title = "math", .left = true, .width = 8},
                    {.title = "engine", .left = true, .width = 10}},
                   {{.title = "idle", .width = 7}, {.title = "loss", .width = 7}, {.title = "accuracy", .width = 8}}),
               harness::screen_of(STDOUT_FILENO)) {
  name_what_is_the_same(columns_, points, {{"math", "math"}, {"engine", "engine"}});
}

void TrainingTable::print_header() const { columns_.print_header(std::cout); }

void TrainingTable::print(const harness::Result& result) const {
  const auto metric = [&](const char* name) { return metric_of(result, name); };
  const auto seconds = [&](const char* name) { return harness::format_seconds(metric(name)); };
  const auto losses = result.extra.find("losses");
  const bool trained = losses != result.extra.end() && !losses->empty();
  const double idle = idle_share(result);
  columns_.print_row(
      std::cout,
      with_step_cells({result.point["model"], result.point["device"], result.point["math"], result.point["engine"]},
                      result,
                      {std::isnan(idle) ? "n/a" : harness::format_percent(idle),
                       harness::format_real(trained ? losses->back().get<double>() : std::nan(""), 4),
                       harness::format_real(metric("test_accuracy"), 4)}));
  if (result.extra.contains("stages") && result.metrics.contains("idle_seconds")) {
    std::cout << "#   its stages, and how long each idles in a step:";
    for (const json& stage : result.extra["stages"]) {
      const double each = result.metrics["idle_seconds"][stage["rank"].get<std::size_t>()];
      std::cout << (stage["rank"] > 0 ? "; " : " ") << stage["first"].get<std::string>() << " to "
                << stage["last"].get<std::string>() << ' ' << harness::format_seconds(each);
    }
    std::cout << '\n';
  }
  if (metric("planted_seconds") > 0) {
    const std::vector<double> waiting = result.metrics["waiting_seconds"];
    std::cout << "#   made slow by " << seconds("planted_seconds") << " a step; waiting, by rank:";
    for (const double each : waiting) std::cout << ' ' << harness::format_seconds(each);
    std::cout << '\n';
  }
  if (result.extra.contains("root")) {
    std::cout << "#   its root: " << harness::format_bytes(result.metrics["root_bytes"].get<std::size_t>())
              << " in and out and " << seconds("root_seconds") << " at work for all in a step, "
              << harness::format_bytes(result.metrics["memory_bytes"].get<std::size_t>()) << " of memory\n";
  }
}

void print_epoch(const harness::Result& result, const Epoch& epoch, std::size_t epochs) {
  std::cout << "# " << name_of(result.point) << ": ";
  if (epochs > 0) std::cout << "epoch " << epoch.number << " of " << epochs << ", ";
  std::cout << "loss " << harness::format_real(epoch.loss, 4);
  if (epoch.accuracy) std::cout << ", test accuracy " << harness::format_real(*epoch.accuracy, 4);
  std::cout << ", " << harness::format_seconds(epoch.seconds) << std::endl;
}

void print_closing(const harness::Result& result) {
  if (!result.point["epochs"].is_number() || !result.metrics.contains("test_accuracy")) return;
  double seconds = 0, whole = 0;
  for (const json& epoch : result.extra["epochs"]) {
    if (!std::isfinite(epoch["seconds"].get<double>())) continue;
    seconds += epoch["seconds"].get<double>();
    ++whole;
  }
  std::cout << "# test acc: " << harness::format_real(result.metrics["test_accuracy"].get<double>(), 2) << ", "
            << harness::format_real(seconds / whole) << " sec/epoch on [";
  for (const json& each : result.extra["memory"]) {
    std::cout << (each["rank"] > 0 ? ", " : "") << each["device"].get<std::string>();
  }
  std::cout << "]\n";
}

}  // namespace bench
