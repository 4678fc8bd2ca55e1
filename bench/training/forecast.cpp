// SPDX-License-Identifier: Apache-2.0
#include "bench/training/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>

#include "allreduce/algorithms.hpp"
#include "allreduce/simulate.hpp"
#include "allreduce/topologies.hpp"
#include "bench/main.hpp"
#include "bench/named_topology.hpp"
#include "bench/session.hpp"
#include "bench/training/options.hpp"
#include "bench/training/reductions.hpp"
#include "bench/training/sweep.hpp"
#include "bench/training/table.hpp"
#include "harness/file.hpp"
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace bench {

using harness::Kind;
using nlohmann::json;

namespace {

constexpr double images_of_an_epoch = 60000;  // Fashion-MNIST's training set
constexpr std::size_t first_bucket_bytes = 1 << 20;
constexpr std::size_t element_bytes = sizeof(float);
constexpr int largest_batch = 1 << 20;  // that a break-even is looked for among

using allreduce::Collective;

std::vector<Profile> read_profiles(const std::string& path, const std::string& model) {
  try {
    const auto profiles = parse_profiles(harness::read_file(path), model);
    if (!profiles.empty()) return profiles;
  } catch (const harness::UsageError& error) {
    throw harness::bad_value("profile", path, error.what());
  }
  throw harness::bad_value(
      "profile", path,
      "it has no layers of " + model + ", which bench_model --model=" + model + " --output=FILE measures");
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

// What collectives cost on a machine; each is simulated once.
class Collectives {
 public:
  struct Cost {
    double seconds = 0;
    std::size_t bytes_moved = 0;  // from one device to another
  };

  Collectives(allreduce::Topology machine, allreduce::Launch launch, const allreduce::StreamsCosts& costs)
      : machine_(std::move(machine)),
        router_(machine_, allreduce::Mover::copy_engine),
        launch_(launch),
        costs_(costs) {}

  int ranks() const { return machine_.size(); }
  Cost of(Collective collective, const std::string& algorithm, std::size_t bytes) {
    if (ranks() == 1) return {};
    const auto [known, fresh] = known_.try_emplace({collective, algorithm, bytes});
    if (fresh) {
      const auto& schedule = schedule_of(collective, algorithm);
      const std::size_t count = bytes / element_bytes;
      known->second = {allreduce::simulate(schedule, router_, {count, element_bytes, launch_}, costs_).seconds(),
                       bytes_crossing(schedule, count, element_bytes)};
    }
    return known->second;
  }

 private:
  const allreduce::Schedule& schedule_of(Collective collective, const std::string& algorithm) {
    const auto [known, fresh] = schedules_.try_emplace({collective, algorithm});
    if (fresh) known->second = allreduce::find_algorithm(algorithm, collective)->build({ranks()});
    return known->second;
  }

  const allreduce::Topology machine_;
  allreduce::Router router_;
  const allreduce::Launch launch_;
  const allreduce::StreamsCosts costs_;
  std::map<std::pair<Collective, std::string>, allreduce::Schedule> schedules_ = {};
  std::map<std::tuple<Collective, std::string, std::size_t>, Cost> known_ = {};
};

class Forecast {
 public:
  explicit Forecast(const harness::Options& options)
      : options_(options),
        columns_(with_step_columns({{.title = "nature", .left = true, .width = 9},
                                    {.title = "model", .left = true, .width = 8},
                                    {.title = "topology", .left = true, .width = 22},
                                    {.title = "devices", .width = 7}},
                                   {{.title = "efficiency", .width = 10},
                                    {.title = "pays from", .width = 9},
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
      if (find_strategy(name).piece == Piece::replica) continue;
      throw harness::bad_value("strategy", name, "the forecast knows those in which each device has the whole network");
    }
    require_algorithms(options);
    for (const auto& model : options.names("model")) profiles_[model] = read_profiles(options.text("profile"), model);
    for (const auto& name : options.names("topology")) {
      for (const auto& missing : options.names("without")) {
        machines_.push_back(
            {name, missing == "none" ? json(nullptr) : json(missing), connected_topology(name, missing, constants_)});
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
              << ", scaled from the nearest batch; all-reduce as simulated\n"
              << "# pays from: the batch" << (scaling_ == "weak" ? " of each device" : "")
              << " from which so many devices get through more images than one\n";
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
    const auto alone_batch = static_cast<double>(global_batch_of(options_, scaling_, 1));
    Collectives collectives(allreduce::first_ranks(machine.topology, ranks),
                            options_.text("launch") == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager,
                            machine.topology.measured ? allreduce::StreamsCosts{} : constants_.streams());
    const double alone = alone_seconds(profiles, alone_batch);
    for (const json& way : ways(ranks)) {
      const double batch = static_cast<double>(global) / ranks;
      const auto [step, moved] = forecast_way(way, models::find_model(model), profiles, batch, collectives);
      auto result = describe(model, machine, way, ranks, global, step, moved, alone, alone_batch);
      const auto even = break_even(way, models::find_model(model), profiles, collectives);
      result.metrics["break_even_batch"] = even ? json(*even) : json(nullptr);
      session.add(result);
    }
  }

  // A step of one device.
  static double alone_seconds(const std::vector<Profile>& profiles, double batch) {
    const Profile profile = at_batch(profiles, batch);
    return forecast_step(profile.layers, profile.optimizer_seconds, {}, {}).compute_seconds();
  }

  // A step with `batch` images on each device, and the bytes that it moves.
  std::pair<StepForecast, std::size_t> forecast_way(const json& way, const models::ModelRow& network,
                                                    const std::vector<Profile>& profiles, double batch,
                                                    Collectives& collectives) const {
    const Profile profile = at_batch(profiles, batch);
    const StrategyRow& strategy = strategy_of(way);
    constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
    const StepPlan plan{.bucket_bytes = strategy.buckets      ? options_.byte_count("bucket")
                                        : strategy.collective ? 0
                                                              : all,
                        .first_bucket_bytes = strategy.buckets ? first_bucket_bytes : all,
                        .overlap = way["overlap"] == "on",
                        .updating = strategy.shares ? collectives.ranks() : 1};
    std::size_t moved = 0;
    const auto by = [&](Collective collective, const std::string& algorithm) {
      return [&, collective, algorithm](std::size_t bytes) {
        const auto [seconds, bytes_moved] = collectives.of(collective, algorithm, bytes);
        moved += bytes_moved;
        return seconds;
      };
    };
    Communication communication;
    if (strategy.collective) {
      const std::string algorithm = way["algorithm"];
      communication.reduce = {strategy.shares ? "reduce_scatter" : "all_reduce", by(*strategy.collective, algorithm)};
      if (strategy.shares) communication.gather = {"all_gather", by(Collective::all_gather, algorithm)};
    } else {
      const auto images = static_cast<std::size_t>(std::ceil(batch));
      const std::size_t image_bytes = images * network.input.size() * element_bytes;
      const std::size_t logit_bytes = images * static_cast<std::size_t>(network.classes) * element_bytes;
      std::size_t parameter_bytes = 0;
      for (const LayerTimes& layer : profile.layers) parameter_bytes += layer.parameters * element_bytes;
      const auto from_root = by(Collective::broadcast, "direct"), to_root = by(Collective::reduce, "direct");
      communication = {.reduce = {"reduce", to_root},
                       .between = {{"replicate", from_root, parameter_bytes},
                                   {"scatter", from_root, image_bytes},
                                   {"gather", to_root, logit_bytes},
                                   {"scatter_gradients", from_root, logit_bytes}}};
    }
    StepForecast step = forecast_step(profile.layers, profile.optimizer_seconds, plan, communication);
    return {std::move(step), moved};
  }

  // The smallest batch (of each device where scaling is weak, of all where it is strong) from which these devices get
  // through more images than one; nothing where a batch as large as any does not pay, and of one device.
  std::optional<int> break_even(const json& way, const models::ModelRow& network, const std::vector<Profile>& profiles,
                                Collectives& collectives) const {
    const int ranks = collectives.ranks();
    if (ranks == 1) return std::nullopt;
    const bool weak = scaling_ == "weak";
    const auto pays = [&](int batch) {
      const double each = weak ? batch : static_cast<double>(batch) / ranks;
      const double step = forecast_way(way, network, profiles, each, collectives).first.step_seconds;
      return step < alone_seconds(profiles, batch) * (weak ? ranks : 1);
    };
    int too_small = weak ? 0 : ranks - 1, enough = largest_batch;
    if (!pays(enough)) return std::nullopt;
    while (enough - too_small > 1) {
      const int middle = std::midpoint(too_small, enough);
      (pays(middle) ? enough : too_small) = middle;
    }
    return enough;
  }

  // Strategy, algorithm and overlap; on one device one algorithm stands for all.
  std::vector<json> ways(int ranks) const {
    std::vector<json> found;
    for (const auto& name : options_.names("strategy")) {
      const StrategyRow& strategy = find_strategy(name);
      auto algorithms = values(algorithms_of(options_, strategy));
      if (algorithms.empty()) algorithms.emplace_back(nullptr);
      if (ranks == 1) algorithms.resize(1);
      const auto overlaps = strategy.buckets ? values(options_.names("overlap")) : std::vector<json>{nullptr};
      for (json& way : harness::points({{"strategy", {name}}, {"algorithm", algorithms}, {"overlap", overlaps}})) {
        found.push_back(std::move(way));
      }
    }
    return found;
  }

  harness::Result describe(const std::string& model, const Machine& machine, const json& way, int ranks,
                           std::size_t global, const StepForecast& step, std::size_t bytes_moved, double alone,
                           double alone_batch) const {
    const bool has_buckets = strategy_of(way).buckets;
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
                    {"overlap", way["overlap"]},
                    {"bucket_bytes", has_buckets ? json(options_.byte_count("bucket")) : json(nullptr)},
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
    json phases = step.phases;
    phases.update(
        {{"forward", step.forward_seconds}, {"backward", step.backward_seconds}, {"update", step.optimizer_seconds}});
    result.extra = {{"buckets", buckets}, {"phases", phases}, {"baseline", machine.name + ":1"}};
    return result;
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return metric_of(result, name); };
    std::string topology = result.point["topology"];
    if (result.point["without"].is_string()) topology.append(" -").append(result.point["without"].get<std::string>());
    const double price = metric("price_per_epoch");
    const json& even = result.metrics["break_even_batch"];
    columns_.print_row(
        std::cout,
        with_step_cells({"simulated", result.point["model"], topology, result.point["ranks"].dump()}, result,
                        {harness::format_percent(metric("scaling_efficiency")), even.is_null() ? "n/a" : even.dump(),
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
  return {{.name = "topology", .kind = Kind::names, .help = "machines of the forecast; allreduce/topologies/README.md"},
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
                           const Communication& communication) {
  StepForecast step;
  step.optimizer_seconds = optimizer_seconds / plan.updating;
  const auto spend = [&](const Exchange& exchange, std::size_t bytes) {
    const double seconds = exchange.seconds ? exchange.seconds(bytes) : 0;
    if (exchange.seconds) step.phases[exchange.phase] += seconds;
    step.communication_seconds += seconds;
    return seconds;
  };
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
    const double seconds = spend(communication.reduce, bucket.bytes);
    bucket.begin_seconds = std::max(end, plan.overlap ? bucket.ready_seconds : now);
    bucket.end_seconds = end = bucket.begin_seconds + seconds;
  }
  step.step_seconds = std::max(now, end) + step.optimizer_seconds;
  for (const Exchange& exchange : communication.between) step.step_seconds += spend(exchange, exchange.bytes);
  if (!communication.gather) return step;
  for (const GradientBucket& bucket : step.buckets) step.step_seconds += spend(*communication.gather, bucket.bytes);
  return step;
}

int run_forecast(const harness::Options& options) { return Forecast(options).run(); }

}  // namespace bench
