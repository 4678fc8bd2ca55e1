// SPDX-License-Identifier: Apache-2.0
#include "bench/training/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "allreduce/algorithms.hpp"
#include "allreduce/simulate.hpp"
#include "allreduce/topologies.hpp"
#include "bench/main.hpp"
#include "bench/session.hpp"
#include "bench/training/options.hpp"
#include "bench/training/reductions.hpp"
#include "bench/training/strategy.hpp"
#include "bench/training/table.hpp"
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace bench {

using harness::Kind;
using nlohmann::json;

namespace {

constexpr double images_of_an_epoch = 60000;  // Fashion-MNIST's training set
constexpr std::size_t first_bucket_bytes = 1 << 20;

// What bench_model measured of a model at a batch.
struct Profile {
  int batch = 0;
  double optimizer_seconds = 0;
  std::vector<LayerTimes> layers = {};
};

double number_or_0(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_number() ? 0 : found->get<double>();
}

std::vector<Profile> read_profiles(const std::string& path, const std::string& model) {
  std::ifstream file(path);
  const json report = json::parse(file, nullptr, false);
  if (!file.good() && report.is_discarded()) throw harness::bad_value("profile", path, "that file cannot be read");
  if (!report.is_object() || !report.contains("results")) {
    throw harness::bad_value("profile", path, "no result file of bench_model");
  }
  std::vector<Profile> profiles;
  try {
    for (const json& row : report["results"]) {
      if (row.at("bench") != "model" || row.at("status") != "ok" || row.at("point").at("model") != model ||
          !row.contains("layers")) {
        continue;
      }
      Profile profile{row.at("point").at("batch"), number_or_0(row.at("metrics"), "optimizer_seconds"), {}};
      for (const json& layer : row["layers"]) {
        profile.layers.push_back({layer.at("name"), number_or_0(layer, "forward_seconds"),
                                  number_or_0(layer, "backward_seconds"),
                                  static_cast<std::size_t>(number_or_0(layer, "parameters"))});
      }
      profiles.push_back(std::move(profile));
    }
  } catch (const json::exception& error) {
    throw harness::bad_value("profile", path, error.what());
  }
  if (profiles.empty()) {
    throw harness::bad_value(
        "profile", path,
        "it has no layers of " + model + ", which bench_model --model=" + model + " --output=FILE measures");
  }
  return profiles;
}

// The profile at the nearest batch, its layers' times scaled to the batch that is wanted.
Profile at_batch(const std::vector<Profile>& profiles, double batch) {
  Profile profile = *std::ranges::min_element(
      profiles, {}, [&](const Profile& one) { return std::abs(std::log(one.batch / batch)); });
  const double factor = batch / profile.batch;
  for (LayerTimes& layer : profile.layers) {
    layer.forward_seconds *= factor;
    layer.backward_seconds *= factor;
  }
  return profile;
}

// 1, 2, 4 ... of a machine's devices, and all of them.
std::vector<int> device_counts(int devices) {
  std::vector<int> counts;
  for (int count = 1; count < devices; count *= 2) counts.push_back(count);
  counts.push_back(devices);
  return counts;
}

class Forecast {
 public:
  explicit Forecast(const harness::Options& options)
      : options_(options),
        columns_(with_step_columns({{.title = "nature", .left = true, .width = 9},
                                    {.title = "model", .left = true, .width = 8},
                                    {.title = "topology", .left = true, .width = 22},
                                    {.title = "devices", .width = 7}},
                                   {{.title = "efficiency", .width = 10},
                                    {.title = "an epoch", .width = 9},
                                    {.title = "price", .width = 8}})) {
    if (options.names("topology").empty()) {
      throw harness::UsageError("--topology: --engine=simulated needs at least one, as in --topology=pcie4-4gpu");
    }
    if (!options.has("profile")) {
      throw harness::UsageError("--profile: --engine=simulated needs what bench_model --output=FILE measured");
    }
    if (options.given("device")) {
      throw harness::bad_value("device", options.text("device"), "the simulated engine has the devices of --topology");
    }
    for (const char* name : {"trace", "save", "resume"}) {
      if (options.given(name)) throw harness::bad_value(name, options.text(name), "a forecast trains nothing");
    }
    for (const auto& name : options.names("strategy")) {
      const StrategyRow& strategy = find_strategy(name);
      if (strategy.reduces_gradients() && strategy.collective == allreduce::Collective::allreduce) continue;
      throw harness::bad_value("strategy", name, "the forecast knows those that all-reduce gradients by an algorithm");
    }
    for (const auto& name : allreduce::select_algorithms(options.names("algorithm"))) {
      if (allreduce::find_algorithm(name)) continue;
      throw harness::bad_value("algorithm", name, "it is no all-reduce, and the forecast knows nothing else");
    }
    for (const auto& model : options.names("model")) profiles_[model] = read_profiles(options.text("profile"), model);
    for (const auto& name : options.names("topology")) {
      for (const auto& missing : options.names("without")) {
        try {
          auto topology = allreduce::find_topology(name, constants_);
          if (missing != "none") topology = allreduce::without(topology, missing);
          allreduce::Router router(topology, allreduce::Mover::copy_engine);
          for (int rank = 1; rank < topology.size(); ++rank) router.between(0, rank);
          machines_.push_back({name, missing == "none" ? json(nullptr) : json(missing), std::move(topology)});
        } catch (const harness::Error& error) {
          throw harness::bad_value("topology", name, error.what());
        }
      }
    }
    scaling_ = scaling_of(options, 2);
  }

  int run() {
    Session session(options_, "bench_train", "forecasts", machines_.size() * profiles_.size(),
                    [this](const harness::Result& result) { print(result); });
    columns_.print_header(std::cout);
    for (const auto& [model, profiles] : profiles_) {
      for (const Machine& machine : machines_) {
        session.point(model + " on " + machine.name, [&] {
          for (const int ranks : device_counts(machine.topology.size()))
            run_ranks(model, profiles, machine, ranks, session);
        });
      }
    }
    std::cout << "# simulated, not measured: layers as in " << options_.text("profile")
              << ", scaled from the nearest batch; all-reduce as simulated\n";
    return session.finish();
  }

 private:
  struct Machine {
    std::string name;
    json without;
    allreduce::Topology topology;
  };

  void run_ranks(const std::string& model, const std::vector<Profile>& profiles, const Machine& machine, int ranks,
                 Session& session) const {
    const std::size_t global = global_batch_of(options_, scaling_, ranks);
    const double batch = static_cast<double>(global) / ranks;
    const double alone_batch = static_cast<double>(global_batch_of(options_, scaling_, 1));
    const Profile profile = at_batch(profiles, batch);
    const auto free = [](std::size_t) { return 0.0; };
    const double alone =
        forecast_step(at_batch(profiles, alone_batch).layers, profile.optimizer_seconds, {}, free).compute_seconds();
    const auto topology = allreduce::first_ranks(machine.topology, ranks);
    allreduce::Router router(topology, allreduce::Mover::copy_engine);
    const auto costs = topology.measured ? allreduce::StreamsCosts{} : constants_.streams();
    const auto launch = options_.text("launch") == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager;
    const auto algorithms = allreduce::select_algorithms(options_.names("algorithm"));
    for (const json& way : harness::points({{"strategy", values(options_.names("strategy"))},
                                            {"algorithm", values(algorithms)},
                                            {"overlap", values(options_.names("overlap"))}})) {
      const StrategyRow& strategy = find_strategy(way["strategy"].get<std::string>());
      if (ranks == 1 && way["algorithm"] != algorithms[0]) continue;
      if (!strategy.buckets && way["overlap"] != options_.names("overlap")[0]) continue;
      const auto schedule = allreduce::find_algorithm(way["algorithm"].get<std::string>())->build({ranks});
      const auto reduce = [&](std::size_t bytes) {
        return ranks == 1 ? 0 : allreduce::simulate(schedule, router, {bytes / 4, 4, launch}, costs).seconds();
      };
      const StepPlan plan = strategy.buckets
                                ? StepPlan{options_.byte_count("bucket"), first_bucket_bytes, way["overlap"] == "on"}
                                : StepPlan{0, 0, false};
      const StepForecast step = forecast_step(profile.layers, profile.optimizer_seconds, plan, reduce);
      std::size_t moved = 0;
      for (const auto& bucket : step.buckets) moved += bytes_crossing(schedule, bucket.bytes / 4, 4);
      session.add(describe(model, machine, way, strategy, ranks, global, step, moved, alone, alone_batch));
    }
  }

  harness::Result describe(const std::string& model, const Machine& machine, const json& way,
                           const StrategyRow& strategy, int ranks, std::size_t global, const StepForecast& step,
                           std::size_t bytes_moved, double alone, double alone_batch) const {
    harness::Result result;
    result.bench = "train";
    result.nature = harness::Nature::simulated;
    result.point = {{"model", model},
                    {"device", machine.name},
                    {"ranks", ranks},
                    {"strategy", way["strategy"]},
                    {"engine", "simulated"},
                    {"algorithm", way["algorithm"]},
                    {"launch", options_.text("launch")},
                    {"batch", (global + ranks - 1) / ranks},
                    {"global_batch", global},
                    {"scaling", scaling_},
                    {"overlap", strategy.buckets ? way["overlap"] : json(nullptr)},
                    {"bucket_bytes", strategy.buckets ? json(options_.byte_count("bucket")) : json(nullptr)},
                    {"topology", machine.name},
                    {"without", machine.without},
                    {"profile", options_.text("profile")}};
    result.command = options_.command();
    const double images = static_cast<double>(global) / step.step_seconds;
    const double speedup = images / (alone_batch / alone);
    const double epoch_hours = images_of_an_epoch / images / 3600;
    result.metrics = {{"step_seconds", step.step_seconds},
                      {"compute_seconds", step.compute_seconds()},
                      {"communication_seconds", step.communication_seconds},
                      {"exposed_seconds", step.step_seconds - step.compute_seconds()},
                      {"hidden_seconds", step.communication_seconds - (step.step_seconds - step.compute_seconds())},
                      {"forward_seconds", step.forward_seconds},
                      {"backward_seconds", step.backward_seconds},
                      {"optimizer_seconds", step.optimizer_seconds},
                      {"images_per_second", images},
                      {"images_per_second_per_device", images / ranks},
                      {"speedup", speedup},
                      {"scaling_efficiency", speedup / ranks},
                      {"bytes_moved", bytes_moved},
                      {"communication_fraction", 1 - step.compute_seconds() / step.step_seconds},
                      {"price_per_epoch",
                       options_.has("price") ? json(epoch_hours * ranks * options_.real("price")) : json(nullptr)}};
    json buckets = json::array();
    for (const GradientBucket& bucket : step.buckets) {
      buckets.push_back({{"bytes", bucket.bytes},
                         {"layers", bucket.layers},
                         {"ready_seconds", bucket.ready_seconds},
                         {"begin_seconds", bucket.begin_seconds},
                         {"end_seconds", bucket.end_seconds}});
    }
    result.extra = {{"buckets", buckets}, {"baseline", machine.name + ":1"}};
    return result;
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return metric_of(result, name); };
    std::string topology = result.point["topology"];
    if (result.point["without"].is_string()) topology.append(" -").append(result.point["without"].get<std::string>());
    const double price = metric("price_per_epoch");
    columns_.print_row(
        std::cout, with_step_cells({"simulated", result.point["model"], topology, result.point["ranks"].dump()}, result,
                                   {harness::format_percent(metric("scaling_efficiency")),
                                    harness::format_seconds(images_of_an_epoch / metric("images_per_second")),
                                    std::isnan(price) ? "n/a" : harness::format_real(price)}));
  }

  const harness::Options& options_;
  const allreduce::Constants constants_;
  harness::Table columns_;
  std::string scaling_;
  std::map<std::string, std::vector<Profile>> profiles_;  // by model
  std::vector<Machine> machines_;
};

}  // namespace

std::vector<harness::Option> forecast_options() {
  return {{.name = "engine",
           .kind = Kind::choice,
           .default_text = "streams",
           .help = "what reduces the gradients; simulated: a forecast for --topology from --profile",
           .allowed = {"streams", "simulated"}},
          {.name = "topology", .kind = Kind::names, .help = "machines of the forecast; allreduce/topologies/README.md"},
          {.name = "without",
           .kind = Kind::names,
           .default_text = "none",
           .help = "what is taken away from them",
           .allowed = {"none", "nvlink"}},
          {.name = "profile", .kind = Kind::text, .help = "layers of the forecast: a result file of bench_model"},
          {.name = "price",
           .kind = Kind::real,
           .help = "of one device for an hour: tells what an epoch costs",
           .minimum = 0}};
}

StepForecast forecast_step(const std::vector<LayerTimes>& layers, double optimizer_seconds, const StepPlan& plan,
                           const std::function<double(std::size_t)>& reduce) {
  StepForecast step;
  step.optimizer_seconds = optimizer_seconds;
  for (const LayerTimes& layer : layers) {
    step.forward_seconds += layer.forward_seconds;
    step.backward_seconds += layer.backward_seconds;
  }
  // Backward goes from the last layer to the first, and fills buckets on its way.
  double now = step.forward_seconds;
  bool full = true;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    now += layer->backward_seconds;
    const std::size_t bytes = layer->parameters * sizeof(float);
    if (bytes == 0) continue;
    const std::size_t most = step.buckets.size() > 1 ? plan.bucket_bytes : plan.first_bucket_bytes;
    if (full || step.buckets.back().bytes + bytes > most) step.buckets.emplace_back();
    GradientBucket& bucket = step.buckets.back();
    bucket.layers.push_back(layer->name);
    bucket.bytes += bytes;
    bucket.ready_seconds = now;
    full = plan.bucket_bytes == 0;
  }
  double end = 0;
  for (GradientBucket& bucket : step.buckets) {
    const double seconds = reduce(bucket.bytes);
    bucket.begin_seconds = std::max(end, plan.overlap ? bucket.ready_seconds : now);
    bucket.end_seconds = end = bucket.begin_seconds + seconds;
    step.communication_seconds += seconds;
  }
  step.step_seconds = std::max(now, end) + optimizer_seconds;
  return step;
}

int run_forecast(const harness::Options& options) { return Forecast(options).run(); }

}  // namespace bench
