// SPDX-License-Identifier: Apache-2.0
#include "bench/training/sweep.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "allreduce/algorithms.hpp"
#include "allreduce/engines/nccl.hpp"
#include "allreduce/engines/rank_program.hpp"
#include "bench/engines.hpp"
#include "bench/main.hpp"
#include "bench/session.hpp"
#include "bench/training/options.hpp"
#include "harness/device/cuda.hpp"
#include "harness/sweep.hpp"
#include "harness/text.hpp"

namespace bench {

using nlohmann::json;

namespace {

constexpr std::size_t default_steps = 50;

// For bench/overlap.py: how much of a slow link's time hides behind computing.
double slow_link() {
  const char* text = std::getenv("RINGMARK_SLOW_LINK");
  return text ? harness::parse_real(text).value_or(0) : 0;
}

}  // namespace

Sweep::Sweep(const harness::Options& options, harness::World& world) : options_(options), world_(world) {
  require_engines();
  require_sense();
  const auto devices = device_points(options, world.joined() ? "cpu:1" : "cpu:2");
  require_devices(devices);
  scaling_ = scaling_of(options, devices.size());
  for (const auto& model : options.names("model")) {
    groups_.push_back(
        harness::points({{"model", {model}}, {"math", values(options.names("math"))}, {"device", values(devices)}}));
  }
  if (!options.given("save") && !options.given("resume")) return;
  const auto all = points();
  if (all.size() > 1) {
    const char* option = options.given("save") ? "save" : "resume";
    throw harness::bad_value(option, options.text(option),
                             "a checkpoint is of one point, and these are " + std::to_string(all.size()));
  }
  checkpoints_ = {options, all[0]["model"], global_batch(ranks_of(devices[0])), world.rank() == 0};
}

int Sweep::ranks_of(const std::string& device) const {
  return world_.size() > 1 ? world_.size() : bench::ranks_of(options_, device);
}

void Sweep::require_engines() const {
  const auto& engines = options_.names("engine");
  for (const std::string& engine : engines) {
    if (engine == "simulated" && engines.size() > 1) {
      throw harness::bad_value("engine", options_.text("engine"), "simulated goes alone");
    }
    if (world_.size() == 1 || is_of_processes(engine)) continue;
    throw harness::bad_value(
        "engine", engine,
        "it runs in one process, and there are " + std::to_string(world_.size()) + "; allowed: mpi, mpi_native, gloo");
  }
  for (const auto& name : options_.names("strategy")) {
    if (!carriers_of(find_strategy(name)).empty()) continue;
    throw harness::bad_value("strategy", name, "only --engine=streams has it, in one process");
  }
}

void Sweep::require_sense() const {
  for (const char* name : {"topology", "without", "profile", "price"}) {
    if (options_.given(name)) throw harness::bad_value(name, options_.text(name), "only --engine=simulated takes it");
  }
  if (options_.given("steps") && options_.given("epochs")) {
    throw harness::bad_value("epochs", options_.text("epochs"), "either steps or epochs are given, not both");
  }
  for (const auto& name : options_.names("model")) {
    if (models::find_model(name).input.size() == models::Dataset::pixels) continue;
    if (options_.text("data") == "synthetic") continue;
    throw harness::bad_value("data", options_.text("data"), name + " reads no images; it learns from: synthetic");
  }
  bool has_pipeline = false;
  const bool moves = options_.real("momentum") > 0;
  for (const auto& name : options_.names("strategy")) {
    const StrategyRow& strategy = find_strategy(name);
    has_pipeline = has_pipeline || strategy.piece == Piece::stage;
    if (strategy.shares && moves && options_.on("find-bucket")) {
      throw harness::bad_value("find-bucket", options_.text("find-bucket"),
                               "with strategy " + name + " devices keep their momentum by bucket; give --bucket");
    }
    for (const char* option : {"accumulate", "grad-dtype"}) {
      if (strategy.reduces_gradients() || !options_.given(option)) continue;
      throw harness::bad_value(option, options_.text(option), "strategy " + name + " all-reduces no gradients");
    }
  }
  if (options_.given("microbatches") && !has_pipeline) {
    throw harness::bad_value("microbatches", options_.text("microbatches"), "only strategy pipeline takes it");
  }
  require_algorithms(options_);
}

void Sweep::require_devices(const std::vector<std::string>& devices) const {
  int most_ranks = 0;
  for (const auto& point : devices) most_ranks = std::max(most_ranks, ranks_of(point));
  if (conditions(most_ranks).slow_rank < 0 && options_.has("slow")) {
    throw harness::bad_value("slow", options_.text("slow"), "no point of --device has such a rank");
  }
  for (const auto& point : devices) {
    const bool records = options_.text("launch") == "graph" && harness::is_gpu((*harness::open_devices(point))[0]);
    if (records && options_.integer("accumulate") > 1) {
      throw harness::bad_value("launch", "graph", "with --accumulate the host waits inside a step; take eager");
    }
  }
  for (const auto& math : options_.names("math")) {
    if (math == "f32") continue;
    for (const auto& point : devices) {
      const auto opened = harness::open_devices(point);
      const auto stream = (*opened)[0].make_stream();
      models::make_model("mlp", *stream, {.capacity = 1, .math = models::parse_math(math)});
    }
  }
}

std::vector<json> Sweep::carriers_of(const StrategyRow& strategy) const {
  std::vector<json> carriers;
  const auto add = [&](const std::string& engine, const std::vector<json>& algorithms) {
    for (const json& algorithm : algorithms) carriers.push_back({{"engine", engine}, {"algorithm", algorithm}});
  };
  for (const std::string& engine : options_.names("engine")) {
    if (!strategy.reduces_gradients() && engine != "streams") continue;
    if (runs_schedules(engine)) {
      const auto algorithms = algorithms_of(options_, strategy);
      add(engine, algorithms.empty() ? std::vector<json>{nullptr} : values(algorithms));
    } else if (engine == "direct") {
      add(engine, {"one_shot", "two_shot"});
    } else {
      add(engine, {nullptr});
      if (engine == "gloo") carriers.back()["gloo"] = {{"algo", "ring"}};
      if (engine == "nccl") {
        carriers.back()["nccl"] = {{"algo", "auto"}, {"version", allreduce::nccl_version()}, {"register", false}};
      }
    }
  }
  return carriers;
}

std::vector<std::vector<json>> Sweep::fleets_of(const json& block) const {
  const bool alone = ranks_of(block["device"]) == 1;
  std::map<std::pair<Piece, bool>, std::vector<json>> fleets;
  for (const auto& name : options_.names("strategy")) {
    const StrategyRow& strategy = find_strategy(name);
    auto carriers = carriers_of(strategy);
    if (alone) carriers.resize(1);
    const auto overlaps = strategy.buckets ? values(options_.names("overlap")) : std::vector<json>{nullptr};
    for (json& point : harness::points({{"strategy", {name}}, {"carrier", carriers}, {"overlap", overlaps}})) {
      const json carrier = point["carrier"];
      point.erase("carrier");
      point.update(carrier);
      point.update(block);
      if (strategy.piece == Piece::stage) point["microbatches"] = options_.integer("microbatches");
      fleets[{strategy.piece, shares_momentum(point)}].push_back(std::move(point));
    }
  }
  std::vector<std::vector<json>> found;
  for (auto& [kind, points] : fleets) found.push_back(std::move(points));
  return found;
}

std::vector<json> Sweep::points() const {
  std::vector<json> points;
  for (const auto& group : groups_) {
    for (const json& block : group) {
      for (auto& fleet : fleets_of(block)) points.insert(points.end(), fleet.begin(), fleet.end());
    }
  }
  return points;
}

std::optional<std::string> Sweep::refuses(const harness::Devices& devices) const {
  if (world_.size() > 1) {
    if (const auto why = allreduce::rank_refuses(devices)) return why;
  }
  for (int rank = 0; rank < devices.size(); ++rank) {
    if (slow_link() > 0 && harness::is_gpu(devices[rank])) return "only CPU devices pretend to have a slow link";
  }
  return std::nullopt;
}

harness::Result Sweep::describe(const json& point, const harness::Devices& devices) const {
  const int ranks = ranks_on(devices);
  harness::Result result = result_on(devices);
  result.oversubscribed = world_.max(result.oversubscribed ? 1 : 0) > 0;
  result.bench = "train";
  if (slow_link() > 0) result.nature = harness::Nature::emulated;
  result.point = point;
  const auto settings = strategy_settings(point, ranks);
  const auto text_or_null = [&](const char* name) {
    return options_.has(name) ? json(options_.text(name)) : json(nullptr);
  };
  const auto integer_or_null = [&](const char* name) {
    return options_.has(name) ? json(options_.integer(name)) : json(nullptr);
  };
  result.point.update({{"ranks", ranks},
                       {"threads", devices.threads()},
                       {"launch", options_.text("launch")},
                       {"backend", models::default_backend(devices[0])},
                       {"batch", (settings.global_batch + ranks - 1) / ranks},
                       {"global_batch", settings.global_batch},
                       {"scaling", scaling_},
                       {"lr", settings.lr},
                       {"momentum", settings.momentum},
                       {"weight_decay", settings.weight_decay},
                       {"lr_scaling", options_.text("lr-scaling")},
                       {"init", options_.text("init")},
                       {"seed", options_.integer("seed")},
                       {"order", options_.text("order")},
                       {"steps", integer_or_null("steps")},
                       {"epochs", integer_or_null("epochs")},
                       {"bucket_bytes", settings.bucket_bytes},
                       {"data", options_.text("data")},
                       {"resume", text_or_null("resume")},
                       {"slow", text_or_null("slow")},
                       {"accumulate", options_.integer("accumulate")},
                       {"grad_dtype", options_.text("grad-dtype")}});
  result.command = command_for(result.point);
  return result;
}

std::vector<std::string> Sweep::command_for(const json& point) const {
  std::vector<std::string> command = {"bench_train"};
  if (world_.size() > 1) command = {"mpirun", "-n", std::to_string(world_.size()), "bench_train"};
  const auto add = [&](const std::string& name, const std::string& value) {
    command.push_back(std::string("--").append(name).append("=").append(value));
  };
  for (const char* name : {"model", "device", "math", "strategy", "engine", "algorithm", "scaling", "overlap"}) {
    if (point.at(name).is_string()) add(name, point.at(name));
  }
  if (strategy_of(point).buckets) {
    add("bucket", std::to_string(point.at("bucket_bytes").get<std::size_t>()));
  }
  if (point.contains("microbatches")) add("microbatches", point["microbatches"].dump());
  for (const char* name :
       {"threads", "launch", "batch", "lr", "lr-scaling", "momentum", "weight-decay", "accumulate", "grad-dtype",
        "slow", "data", "data-dir", "init", "order", "seed", "steps", "epochs", "eval", "resume"}) {
    if (options_.given(name)) add(name, options_.text(name));
  }
  return command;
}

std::size_t Sweep::global_batch(int ranks) const { return global_batch_of(options_, scaling_, ranks); }

models::ModelSettings Sweep::model_settings(const json& point, int ranks) const {
  models::ModelSettings settings;
  std::size_t parts = 1;  // into which a batch is cut
  if (strategy_of(point).piece == Piece::replica) parts = std::size_t(ranks) * conditions(ranks).accumulate;
  if (strategy_of(point).piece == Piece::stage) parts = point["microbatches"].get<std::size_t>();
  settings.capacity = static_cast<int>((global_batch(ranks) + parts - 1) / parts);
  settings.init = models::parse_init(options_.text("init"));
  settings.seed = static_cast<std::uint64_t>(options_.integer("seed"));
  settings.momentum = options_.real("momentum") > 0;
  settings.math = models::parse_math(point["math"].get<std::string>());
  return settings;
}

Conditions Sweep::conditions(int ranks) const {
  Conditions conditions;
  conditions.accumulate = static_cast<int>(options_.integer("accumulate"));
  if (!options_.has("slow")) return conditions;
  const auto words = harness::split(options_.text("slow"), ':');
  const auto rank = harness::parse_integer(words[0], 0, 1 << 20);
  const auto factor = words.size() == 2 ? harness::parse_real(words[1]) : std::nullopt;
  if (!rank || !factor || *factor < 1) {
    throw harness::bad_value("slow", options_.text("slow"),
                             "a rank and a factor of at least 1 belong here, as in 1:2.5");
  }
  if (*rank < ranks) {
    conditions.slow_rank = static_cast<int>(*rank);
    conditions.slow_factor = *factor;
  }
  return conditions;
}

bool Sweep::shares_momentum(const json& point) const {
  return strategy_of(point).shares && options_.real("momentum") > 0;
}

StrategySettings Sweep::strategy_settings(const json& point, int ranks) const {
  StrategySettings settings;
  settings.global_batch = global_batch(ranks);
  settings.engine = point["engine"];
  if (point["algorithm"].is_string()) settings.algorithm = point["algorithm"];
  for (const char* library : {"nccl", "gloo"}) {
    if (point.contains(library)) settings.algorithm = point[library]["algo"];
  }
  settings.launch = options_.text("launch") == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager;
  settings.overlap = point["overlap"] == "on";
  settings.bucket_bytes = point.value("bucket_bytes", options_.byte_count("bucket"));
  settings.grad_dtype = *harness::parse_dtype(options_.text("grad-dtype"));
  settings.microbatches = point.value("microbatches", 1);
  settings.link_bytes_per_second = slow_link();
  settings.momentum = options_.real("momentum");
  settings.weight_decay = options_.real("weight-decay");
  const bool grows = scaling_ == "weak" && options_.text("lr-scaling") == "linear";
  settings.lr = options_.real("lr") * (grows ? ranks : 1);
  return settings;
}

CourseSettings Sweep::course_settings(int ranks) const {
  CourseSettings settings;
  settings.global_batch = global_batch(ranks);
  settings.order =
      options_.text("order") == "shuffled" ? models::Sampler::Order::shuffled : models::Sampler::Order::sequential;
  settings.seed = static_cast<std::uint64_t>(options_.integer("seed"));
  settings.steps = steps_within(0);
  if (options_.has("epochs")) settings.epochs = static_cast<std::size_t>(options_.integer("epochs"));
  settings.losses = checkpoints_.losses();
  return settings;
}

std::size_t Sweep::steps_within(double slowest_step_seconds) const {
  if (options_.has("steps")) return static_cast<std::size_t>(options_.integer("steps"));
  if (options_.has("save") || options_.has("resume") || !(slowest_step_seconds > 0)) return default_steps;
  constexpr double seconds = 10;  // of training
  constexpr double fewest = 2;    // the second step shows the first one's update
  return static_cast<std::size_t>(std::clamp(seconds / slowest_step_seconds, fewest, double(default_steps)));
}

// A step is timed three times: whole, its compute alone, its communication alone.
harness::MeasureSettings Sweep::measure_settings() const {
  auto settings = bench::measure_settings(options_, 3);
  settings.agree = [this](double seconds) { return world_.max(seconds); };
  return settings;
}

const StrategyRow& strategy_of(const json& point) { return find_strategy(point["strategy"].get<std::string>()); }

std::string name_of(const json& point) {
  std::string name;
  for (const char* word : {"model", "math", "device", "strategy", "engine", "algorithm"}) {
    if (!point[word].is_string() || point[word] == "f32" || point[word] == "streams") continue;
    name.append(name.empty() ? "" : " ").append(point[word].get<std::string>());
  }
  return name;
}

}  // namespace bench
