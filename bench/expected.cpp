// SPDX-License-Identifier: Apache-2.0
#include "bench/expected.hpp"

#include <algorithm>
#include <cstdlib>

#include "allreduce/algorithms.hpp"
#include "allreduce/relabel.hpp"
#include "bench/named_topology.hpp"
#include "harness/device/dtype.hpp"
#include "harness/text.hpp"

namespace bench {

using nlohmann::json;

namespace {

bool are_gpus(const std::string& device) { return device.starts_with("cuda"); }

// The GPUs of "cuda:0,2", in order of rank; of "cuda" all; nothing where a GPU has several ranks or is none.
std::optional<std::vector<allreduce::Rank>> gpus_of(const std::string& device, int size, int on_host) {
  std::vector<allreduce::Rank> gpus;
  if (device == "cuda") {
    for (int gpu = 0; gpu < size; ++gpu) gpus.push_back(gpu);
  } else {
    for (const std::string& part : harness::split(device.substr(device.find(':') + 1), ',')) {
      const auto gpu = harness::parse_integer(part, 0, on_host - 1);
      if (!gpu || std::ranges::find(gpus, *gpu) != gpus.end()) return std::nullopt;
      gpus.push_back(static_cast<allreduce::Rank>(*gpu));
    }
  }
  if (static_cast<int>(gpus.size()) != size || size > on_host) return std::nullopt;
  return gpus;
}

allreduce::Workload workload_of(const json& point) {
  const std::size_t element = harness::size_of(*harness::parse_dtype(point["dtype"].get<std::string>()));
  return {point["bytes"].get<std::size_t>() / element, element,
          point["launch"] == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager};
}

}  // namespace

Expectations::Expectations(const harness::Options& options, const Schedules& schedules,
                           const std::vector<std::string>& devices)
    : schedules_(schedules), named_(!options.names("topology").empty()) {
  if (devices.empty()) return;  // nothing is measured
  if (named_) {
    const auto &names = options.names("topology"), &missing = options.names("without");
    if (names.size() > 1 || missing.size() > 1) return;
    machine_ = Machine{names[0], nullptr, "given", connected_topology(names[0], missing[0], constants_), {}};
    return;
  }
  // nvidia-smi numbers the GPUs without regard to this variable.
  if (!std::ranges::all_of(devices, are_gpus) || std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    return;
  }
  try {
    machine_ = Machine{"auto", nullptr, "given", allreduce::find_topology("auto", constants_), {}};
  } catch (const harness::Error&) {
    // A host that does not say how its GPUs are joined has nothing to be held against.
  }
}

void Expectations::require_ranks(const std::string& device, int ranks) const {
  if (!named_ || !machine_ || machine_->described.size() == ranks) return;
  throw harness::bad_value("topology", machine_->topology.get<std::string>(),
                           "it has " + std::to_string(machine_->described.size()) + " devices, and " + device +
                               " has " + std::to_string(ranks) + "; NAME:N takes the first N of a machine");
}

std::optional<Machine> Expectations::machine_of(const std::string& device, int ranks) const {
  Machine machine = *machine_;
  if (are_gpus(device)) {
    const auto gpus = gpus_of(device, ranks, machine.described.size());
    if (!gpus) return std::nullopt;
    machine.described = allreduce::reordered(machine.described, *gpus);
  }
  if (machine.described.size() != ranks) return std::nullopt;
  return machine;
}

json Expectations::of(const harness::Result& measured, const harness::Devices& devices,
                      const allreduce::Shape& shape) const {
  const json& point = measured.point;
  if (!machine_ || devices.emulated() || shape.ranks == 1 || point["fused"] == "on") return nullptr;
  if (point["engine"] == "direct") return nullptr;  // the simulation knows streams, not kernels that meet
  const double seconds = measured.metrics.value("seconds", 0.0);
  if (seconds <= 0 || point["bytes"] == 0) return nullptr;
  const auto machine = machine_of(devices.text(), devices.size());
  if (!machine) return nullptr;

  Forecaster forecaster(*machine, constants_, schedules_, shape);
  Forecast forecast;
  if (point["engine"] == "nccl") {
    const std::string algo = point["nccl"]["algo"];
    if (schedules_.collective() != allreduce::Collective::allreduce) return nullptr;
    if (algo != "auto" && algo != "ring" && algo != "tree" && algo != "nvls") return nullptr;
    forecast = forecaster.nccl(point["bytes"], {algo == "auto" ? "" : algo, true});
  } else {
    forecast = forecaster.streams(algorithm_of(measured), workload_of(point));
  }
  if (forecast.seconds <= 0) return nullptr;

  const double ratio = seconds / forecast.seconds;
  json link = nullptr;
  if (const auto& busiest = forecast.extra.value("busiest_link", json(nullptr)); busiest.is_object()) {
    link = {{"from", busiest["from"]},
            {"to", busiest["to"]},
            {"kind", busiest["kind"]},
            {"bytes_per_second", busiest["bytes"].get<double>() / seconds},
            {"expected_bytes_per_second", busiest["bytes"].get<double>() / forecast.seconds}};
  }
  return {{"topology", machine->described.name},
          {"seconds", forecast.seconds},
          {"ratio", ratio},
          {"verdict", ratio > same_within       ? "slow"
                      : ratio < 1 / same_within ? "fast"
                                                : "as expected"},
          {"link", link},
          {"critical_path", forecast.extra.value("critical_path", "")}};
}

json Expectations::fastest(const json& point, const allreduce::Shape& shape) const {
  const auto& all = allreduce::algorithms(schedules_.collective());
  const Machine machine = machine_of(point["device"], shape.ranks).value_or(*machine_);
  Forecaster forecaster(machine, constants_, schedules_, shape);
  std::string best;
  double least = 0;
  for (const auto& algorithm : all) {
    const double seconds = forecaster.streams(std::string(algorithm.name), workload_of(point)).seconds;
    if (!best.empty() && seconds >= least) continue;
    best = algorithm.name;
    least = seconds;
  }
  return {{"algorithm", best},
          {"why", "the fastest of " + std::to_string(all.size()) + " as simulated on " + machine.described.name + ", " +
                      harness::format_seconds(least) + "; nothing was tuned"}};
}

std::vector<std::string> in_rank_order(std::vector<std::string> devices, const harness::Options& options) {
  const std::string text = options.text("rank-order");
  if (text == "given") return devices;
  if (!std::ranges::all_of(devices, are_gpus)) {
    throw harness::bad_value("rank-order", text, "CPU devices are all alike; it is of GPUs and simulated machines");
  }
  const allreduce::Constants constants;
  const auto& named = options.names("topology");
  const auto machine = connected_topology(named.empty() ? "auto" : named[0], options.names("without")[0], constants);
  for (std::string& device : devices) {
    const int size = device == "cuda" ? machine.size() : static_cast<int>(harness::split(device, ',').size());
    const auto gpus = gpus_of(device, size, machine.size());
    if (!gpus) throw harness::bad_value("rank-order", text, device + " is no list of GPUs with a rank each");
    const auto order = rank_order(text, allreduce::reordered(machine, *gpus));
    device = "cuda:";
    for (const int rank : order) device.append(rank == order[0] ? "" : ",").append(std::to_string((*gpus)[rank]));
  }
  return devices;
}

std::string verdict_of(const json& expected) {
  if (!expected.is_object()) return "";
  if (expected["verdict"] == "as expected") return expected["verdict"];
  return expected["verdict"].get<std::string>().append(" ").append(harness::format_real(expected["ratio"])).append("x");
}

std::string slowest_of(const std::vector<harness::Result>& results) {
  const harness::Result* slowest = nullptr;
  int slow = 0;
  const auto ratio = [](const harness::Result& result) { return result.extra["expected"]["ratio"].get<double>(); };
  for (const harness::Result& result : results) {
    if (!result.extra.contains("expected") || result.extra["expected"]["verdict"] != "slow") continue;
    ++slow;
    if (slowest == nullptr || ratio(result) > ratio(*slowest)) slowest = &result;
  }
  if (slowest == nullptr) return "";
  const json& expected = slowest->extra["expected"];
  const std::string algorithm = algorithm_of(*slowest);
  std::string line = "# slow: " + std::to_string(slow) + " rows; the most " + (algorithm.empty() ? "nccl" : algorithm) +
                     " at " + harness::format_bytes(slowest->point["bytes"]) + ", " + verdict_of(expected);
  if (const json& link = expected["link"]; link.is_object()) {
    line.append("; its busiest link, ").append(link["from"].get<std::string>()).append(" > ");
    line.append(link["to"].get<std::string>()).append(" (").append(link["kind"].get<std::string>()).append("), had ");
    line.append(harness::format_bandwidth(link["bytes_per_second"])).append(" of ");
    line.append(harness::format_bandwidth(link["expected_bytes_per_second"]));
  }
  return line.append("\n");
}

}  // namespace bench
