// SPDX-License-Identifier: Apache-2.0
// bench_train: the all-reduce inside real training steps. Ways of training that share a model and its devices share the
// replicas too: the whole step, its compute alone and its communication alone are timed in interleaved rounds from the
// initial parameters, then each way trains the model from there.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>

#include "allreduce/algorithms.hpp"
#include "bench/main.hpp"
#include "bench/session.hpp"
#include "bench/training/checkpoints.hpp"
#include "bench/training/course.hpp"
#include "bench/training/forecast.hpp"
#include "bench/training/options.hpp"
#include "bench/training/strategy.hpp"
#include "bench/training/timeline.hpp"
#include "bench/training/timing.hpp"
#include "harness/clock.hpp"
#include "harness/file.hpp"
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using nlohmann::json;

// Tried by --find-bucket, each four times the one before.
constexpr std::size_t smallest_bucket = 64 << 10;
constexpr std::size_t largest_bucket = 64 << 20;

class Bench {
 public:
  explicit Bench(const harness::Options& options)
      : options_(options),
        measuring_(bench::measure_settings(options, 3)),
        columns_({{.title = "model", .left = true, .width = 8},
                  {.title = "device", .left = true, .width = 7},
                  {.title = "math", .left = true, .width = 8},
                  {.title = "strategy", .left = true, .width = 13},
                  {.title = "algorithm", .left = true, .width = 16},
                  {.title = "overlap", .left = true, .width = 7},
                  {.title = "batch", .width = 6},
                  {.title = "step", .width = 9},
                  {.title = "compute", .width = 9},
                  {.title = "comm.", .width = 9},
                  {.title = "exposed", .width = 9},
                  {.title = "images/s", .width = 9},
                  {.title = "speed-up", .width = 8},
                  {.title = "loss", .width = 7},
                  {.title = "accuracy", .width = 8}},
                 harness::screen_of(STDOUT_FILENO)) {
    for (const char* name : {"topology", "without", "profile", "price"}) {
      if (options.given(name)) throw harness::bad_value(name, options.text(name), "only --engine=simulated takes it");
    }
    if (options.given("steps") && options.given("epochs")) {
      throw harness::bad_value("epochs", options.text("epochs"), "either steps or epochs are given, not both");
    }
    for (const auto& name : options.names("model")) {
      if (models::find_model(name).input.size() == models::Dataset::pixels) continue;
      if (options.text("data") == "synthetic") continue;
      throw harness::bad_value("data", options.text("data"), name + " reads no images; it learns from: synthetic");
    }
    const auto devices = bench::device_points(options, "cpu:2");
    int most_ranks = 0;
    for (const auto& point : devices) most_ranks = std::max(most_ranks, bench::ranks_of(options, point));
    if (bench::conditions_for(options, most_ranks).slow_rank < 0 && options.has("slow")) {
      throw harness::bad_value("slow", options.text("slow"), "no point of --device has such a rank");
    }
    for (const auto& name : options.names("strategy")) {
      if (bench::find_strategy(name).reduces) continue;
      for (const char* option : {"accumulate", "grad-dtype"}) {
        if (!options.given(option)) continue;
        throw harness::bad_value(option, options.text(option), "strategy " + name + " does no all-reduce");
      }
    }
    scaling_ = bench::scaling_of(options, devices.size());
    require_math(devices);
    blocks_ = harness::points({{"model", bench::values(options.names("model"))},
                               {"math", bench::values(options.names("math"))},
                               {"device", bench::values(devices)}});
    bench::name_what_is_the_same(columns_, blocks_, {{"math", "math"}});
    if (options.given("trace")) trace_ = harness::writable("trace", options.text("trace"));
    if (options.given("save") || options.given("resume")) {
      if (const std::size_t points = blocks_.size() * points_of(blocks_[0]).size(); points > 1) {
        const char* option = options.given("save") ? "save" : "resume";
        throw harness::bad_value(option, options.text(option),
                                 "a checkpoint is of one point, and these are " + std::to_string(points));
      }
      const std::string model = blocks_[0]["model"];
      checkpoints_ = {options, model, bench::global_batch_of(options, scaling_, most_ranks)};
    }
  }

  int run() {
    if (options_.on("list")) {
      for (const json& block : blocks_) {
        for (const json& point : points_of(block)) std::cout << point.dump() << '\n';
      }
      return 0;
    }
    bench::Session session(options_, "bench_train", "points", blocks_.size(),
                           [this](const harness::Result& result) { print(result); });
    load_data();
    std::cout << "# " << scaling_ << " scaling: a batch of " << options_.integer("batch")
              << (scaling_ == "weak" ? " on each device" : " over all devices") << ", learning rate "
              << options_.text("lr")
              << (scaling_ == "weak" && options_.text("lr-scaling") == "linear" ? " times the devices" : "") << '\n';
    columns_.print_header(std::cout);
    for (const json& block : blocks_) {
      const auto devices = session.open(block["device"]);
      session.point(block.dump(), [&] { run_block(block, *devices, session); });
    }
    std::cout << "# exposed = step - compute: what communication costs; negative where it is below the noise\n";
    if (!trace_.empty()) {
      harness::replace_file(trace_, bench::chrome_trace(titles_, timelines_).dump() + '\n');
    }
    return session.finish();
  }

 private:
  // What the devices' backends do not have is said before anything is measured.
  void require_math(const std::vector<std::string>& devices) const {
    for (const auto& math : options_.names("math")) {
      if (math == "f32") continue;
      for (const auto& point : devices) {
        const auto opened = harness::open_devices(point);
        const auto stream = (*opened)[0].make_stream();
        models::make_model("mlp", *stream, {.capacity = 1, .math = models::parse_math(math)});
      }
    }
  }

  // The ways of training that a block compares. One device has nothing to reduce: one algorithm stands for all there.
  std::vector<json> points_of(const json& block) const {
    const bool alone = bench::ranks_of(options_, block["device"]) == 1;
    const auto algorithms = allreduce::select_algorithms(options_.names("algorithm"));
    std::vector<json> points;
    for (json point : harness::points({{"strategy", bench::values(options_.names("strategy"))},
                                       {"algorithm", bench::values(algorithms)},
                                       {"overlap", bench::values(options_.names("overlap"))}})) {
      const auto& strategy = bench::find_strategy(point["strategy"].get<std::string>());
      if ((alone || !strategy.reduces) && point["algorithm"] != algorithms[0]) continue;
      if (!strategy.buckets && point["overlap"] != options_.names("overlap")[0]) continue;
      if (!strategy.reduces) point["algorithm"] = nullptr;
      if (!strategy.buckets) point["overlap"] = nullptr;
      point.update(block);
      points.push_back(point);
    }
    return points;
  }

  void load_data() {
    if (options_.text("data") == "synthetic") return;
    train_ = models::load_fashion_mnist(models::Part::train, options_.text("data-dir"));
    if (options_.on("eval")) test_ = models::load_fashion_mnist(models::Part::test, options_.text("data-dir"));
  }

  void make_data(const models::ModelRow& model) {
    constexpr std::size_t train_images = 10000;
    constexpr std::size_t test_images = 1000;
    train_ = models::make_synthetic(train_images, 1, model.input, model.classes);
    test_ = models::make_synthetic(test_images, 2, model.input, model.classes);
  }

  // A contender of a block: its row of the report, and what trains.
  struct Way {
    std::size_t row;
    std::unique_ptr<bench::Strategy> strategy;
    std::vector<std::size_t> scratch;  // bytes that it took on each device, beside the replica
  };

  void run_block(const json& block, harness::Devices& devices, bench::Session& session) {
    const int ranks = devices.size();
    const std::size_t global_batch = bench::global_batch_of(options_, scaling_, ranks);
    models::ModelSettings replica;
    const bench::Conditions conditions = bench::conditions_for(options_, ranks);
    const std::size_t parts = std::size_t(ranks) * conditions.accumulate;
    replica.capacity = static_cast<int>((global_batch + parts - 1) / parts);
    replica.init = models::parse_init(options_.text("init"));
    replica.seed = measuring_.seed;
    replica.momentum = options_.real("momentum") > 0;
    replica.math = models::parse_math(block["math"].get<std::string>());
    std::vector<std::size_t> rows;
    for (const json& point : points_of(block)) {
      rows.push_back(session.add(describe(point, devices, global_batch)));
    }

    if (options_.text("data") == "synthetic") make_data(models::find_model(block["model"].get<std::string>()));
    bench::CourseSettings course = bench::course_settings(options_, global_batch);
    course.train = &train_;
    if (options_.on("eval")) course.test = &test_;
    course.losses = checkpoints_.losses();
    const auto before = allocated(devices);
    bench::Replicas replicas(devices, block["model"], replica, conditions);
    checkpoints_.restore(replicas, bench::Course(ranks, course).steps());
    const auto replica_bytes = difference(allocated(devices), before);
    std::vector<Way> ways;
    for (const std::size_t row : rows) {
      if (options_.on("find-bucket")) find_bucket(row, replicas, course, session);
      const json& point = session.results()[row].point;
      const auto& strategy = bench::find_strategy(point["strategy"].get<std::string>());
      const auto held = allocated(devices);
      auto made = strategy.make(replicas, bench::strategy_settings(options_, point, scaling_, ranks));
      ways.push_back({row, std::move(made), difference(allocated(devices), held)});
      record_memory(ways.back(), replicas, replica_bytes, session);
    }
    const std::vector<float> initial = replicas.state();
    measure(ways, replicas, course, session);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      replicas.restore(initial);
      train(ways[i], replicas, course, session, [&](double share, const std::string& what) {
        session.show((static_cast<double>(i) + share) / static_cast<double>(ways.size()), what);
      });
    }
  }

  harness::Result describe(const json& point, const harness::Devices& devices, std::size_t global_batch) const {
    harness::Result result;
    result.bench = "train";
    result.oversubscribed = devices.oversubscribed();
    result.point = point;
    const bool epochs = options_.has("epochs");
    const auto settings = bench::strategy_settings(options_, point, scaling_, devices.size());
    result.point.update({{"ranks", devices.size()},
                         {"threads", devices.threads()},
                         {"engine", "streams"},
                         {"launch", options_.text("launch")},
                         {"backend", models::default_backend(devices[0])},
                         {"batch", (global_batch + devices.size() - 1) / devices.size()},
                         {"global_batch", global_batch},
                         {"scaling", scaling_},
                         {"lr", settings.lr},
                         {"momentum", settings.momentum},
                         {"weight_decay", settings.weight_decay},
                         {"lr_scaling", options_.text("lr-scaling")},
                         {"init", options_.text("init")},
                         {"seed", options_.integer("seed")},
                         {"order", options_.text("order")},
                         {"steps", epochs ? json(nullptr) : json(options_.integer("steps"))},
                         {"epochs", epochs ? json(options_.integer("epochs")) : json(nullptr)},
                         {"bucket_bytes", settings.bucket_bytes},
                         {"data", options_.text("data")},
                         {"resume", options_.has("resume") ? json(options_.text("resume")) : json(nullptr)},
                         {"slow", options_.has("slow") ? json(options_.text("slow")) : json(nullptr)},
                         {"accumulate", options_.integer("accumulate")},
                         {"grad_dtype", options_.text("grad-dtype")}});
    result.command = bench::command_for(options_, result.point);
    return result;
  }

  static std::vector<std::size_t> allocated(const harness::Devices& devices) {
    std::vector<std::size_t> bytes;
    for (int rank = 0; rank < devices.size(); ++rank) bytes.push_back(devices[rank].allocated_bytes());
    return bytes;
  }
  static std::vector<std::size_t> difference(std::vector<std::size_t> now, const std::vector<std::size_t>& before) {
    for (std::size_t rank = 0; rank < now.size(); ++rank) now[rank] -= before[rank];
    return now;
  }

  void record_memory(const Way& way, const bench::Replicas& replicas, const std::vector<std::size_t>& replica,
                     bench::Session& session) const {
    harness::Result result = session.results()[way.row];
    const std::size_t arena = replicas.size() * sizeof(float);
    const std::size_t optimizer = options_.real("momentum") > 0 ? arena : 0;
    json memory = json::array();
    std::size_t most = 0;
    for (int rank = 0; rank < replicas.ranks(); ++rank) {
      memory.push_back({{"device", replicas.devices()[rank].name()},
                        {"rank", rank},
                        {"bytes", replica[rank] + way.scratch[rank]},
                        {"parameters", arena},
                        {"gradients", arena},
                        {"activations", replica[rank] - 2 * arena - optimizer},
                        {"optimizer", optimizer},
                        {"scratch", way.scratch[rank]}});
      most = std::max(most, replica[rank] + way.scratch[rank]);
    }
    result.extra["memory"] = memory;
    result.metrics["memory_bytes"] = most;
    session.update(way.row, std::move(result));
  }

  // Tries sizes from small ones to the whole of the gradients, as far as they cut those differently.
  void find_bucket(std::size_t row, bench::Replicas& replicas, const bench::CourseSettings& course,
                   bench::Session& session) const {
    harness::Result result = session.results()[row];
    const auto& kind = bench::find_strategy(result.point["strategy"].get<std::string>());
    if (!kind.buckets || replicas.ranks() == 1) return;
    std::vector<std::size_t> sizes;
    std::vector<std::unique_ptr<bench::Strategy>> tried;
    for (std::size_t bytes = smallest_bucket; bytes <= largest_bucket; bytes *= 4) {
      result.point["bucket_bytes"] = bytes;
      auto strategy = kind.make(replicas, bench::strategy_settings(options_, result.point, scaling_, replicas.ranks()));
      if (!tried.empty() && strategy->reductions() == tried.back()->reductions()) continue;
      strategy->load(bench::Course(replicas.ranks(), course).batch(0));
      sizes.push_back(bytes);
      tried.push_back(std::move(strategy));
    }
    const auto seconds = bench::compare_steps(tried, replicas, measuring_);
    json buckets = json::array();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      buckets.push_back({{"bytes", sizes[i]}, {"step_seconds", seconds[i]}});
    }
    const std::size_t best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    result.point["bucket_bytes"] = sizes[best];
    result.command = bench::command_for(options_, result.point);
    result.extra["bucket_sizes"] = buckets;
    std::cout << "# " << name_of(result.point) << ": of " << sizes.size() << " bucket sizes the fastest is "
              << harness::format_bytes(sizes[best]) << '\n';
    session.update(row, std::move(result));
  }

  void measure(const std::vector<Way>& ways, bench::Replicas& replicas, const bench::CourseSettings& course,
               bench::Session& session) {
    const bench::Batch first = bench::Course(replicas.ranks(), course).batch(0);
    std::vector<bench::Contender> contenders;
    std::vector<double> load_seconds;
    for (const Way& way : ways) {
      const double begin = harness::steady_seconds();
      way.strategy->load(first);
      load_seconds.push_back(harness::steady_seconds() - begin);
      contenders.push_back({way.strategy.get(), session.results()[way.row].point["strategy"]});
    }
    const auto times = bench::time_steps(contenders, replicas, measuring_);
    const std::vector<float> initial = replicas.state();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      harness::Result result = session.results()[ways[i].row];
      record(result, times[i], *ways[i].strategy, replicas);
      result.metrics["load_seconds"] = load_seconds[i];
      compare_with_one_device(session.results(), result);
      titles_.push_back(name_of(result.point));
      timelines_.push_back(bench::watch_step(*ways[i].strategy, replicas));
      replicas.restore(initial);
      result.extra["timeline"] = bench::as_json(timelines_.back());
      session.update(ways[i].row, std::move(result));
    }
  }

  static void record(harness::Result& result, const bench::StepTimes& times, const bench::Strategy& strategy,
                     const bench::Replicas& replicas) {
    bench::record_samples(result, times.step);
    const double step = times.step.seconds;
    const double exposed = step - times.compute;
    const double images = result.point["global_batch"].get<double>() / step;
    result.metrics.update({{"step_seconds", step},
                           {"low", bench::low_of(times.step)},
                           {"high", bench::high_of(times.step)},
                           {"compute_seconds", times.compute},
                           {"communication_seconds", times.communication},
                           {"exposed_seconds", exposed},
                           {"hidden_seconds", times.communication - exposed},
                           {"images_per_second", images},
                           {"images_per_second_per_device", images / replicas.ranks()},
                           {"communication_fraction", std::max(0.0, exposed / step)},
                           {"waiting_seconds", times.waiting},
                           {"planted_seconds", times.planted},
                           {"bytes_moved", strategy.bytes_moved()},
                           {"parameters", replicas.size()},
                           {"parameter_bytes", replicas.size() * sizeof(float)}});
    json phases = json::object();
    for (const bench::Phase& phase : times.phases) {
      phases[phase.name] = *std::max_element(phase.seconds.begin(), phase.seconds.end());
    }
    result.metrics["forward_seconds"] = phases.at("forward");
    result.metrics["backward_seconds"] = phases.at("backward");
    result.metrics["optimizer_seconds"] = phases.at("update");
    result.extra["phases"] = std::move(phases);
    if (const auto at_root = strategy.root_phases(); !at_root.empty()) {
      double seconds = 0;
      for (const bench::Phase& phase : times.phases) {
        if (std::find(at_root.begin(), at_root.end(), phase.name) != at_root.end()) seconds += phase.seconds[0];
      }
      result.extra["root"] = 0;
      result.metrics["root_seconds"] = seconds;
      result.metrics["root_bytes"] = strategy.bytes_moved();
    }
    json buckets = json::array();
    for (const models::Slice& slice : strategy.reductions()) {
      buckets.push_back({{"index", buckets.size()},
                         {"bytes", slice.count * sizeof(float)},
                         {"first", slice.offset},
                         {"count", slice.count}});
    }
    result.extra["buckets"] = buckets;
  }

  // Speed-up is against the first point of one device with the same model and arithmetic.
  static void compare_with_one_device(const std::vector<harness::Result>& results, harness::Result& result) {
    for (const harness::Result& other : results) {
      if (other.point["ranks"] != 1) continue;
      if (other.point["model"] != result.point["model"] || other.point["math"] != result.point["math"]) continue;
      const bool itself = other.point == result.point;
      if (!itself && !other.metrics.contains("images_per_second")) continue;
      const double alone = (itself ? result : other).metrics["images_per_second"];
      const double speedup = result.metrics["images_per_second"].get<double>() / alone;
      result.extra["baseline"] = other.point["device"];
      result.metrics["speedup"] = speedup;
      result.metrics["scaling_efficiency"] = speedup / result.point["ranks"].get<int>();
      return;
    }
  }

  void train(const Way& way, bench::Replicas& replicas, const bench::CourseSettings& settings, bench::Session& session,
             const std::function<void(double, const std::string&)>& show) const {
    bench::Course course(replicas.ranks(), settings);
    harness::Result result = session.results()[way.row];
    json epochs = json::array();
    bench::CourseHooks hooks;
    hooks.shown = [&](std::size_t step) {
      show(static_cast<double>(step) / static_cast<double>(course.steps()),
           "step " + std::to_string(step + 1) + " of " + std::to_string(course.steps()) + ", " + name_of(result.point));
    };
    hooks.ended = [&](const bench::Epoch& epoch) {
      result.extra["checksums"] = epoch.checksums;
      json row = {{"epoch", epoch.number}, {"seconds", epoch.seconds}, {"train_loss", epoch.loss}};
      if (epoch.accuracy) row["test_accuracy"] = result.metrics["test_accuracy"] = *epoch.accuracy;
      if (settings.epochs == 0 && !settings.test) return;
      epochs.push_back(row);
      print(result, epoch, settings.epochs);
    };
    if (checkpoints_.saves()) {
      hooks.keep = [&](const std::vector<double>& losses) { checkpoints_.save(replicas, losses, course.batches()); };
    }
    const auto losses = course.run(*way.strategy, replicas, hooks);
    print_closing(result, epochs, replicas.devices());
    if (!result.extra.contains("checksums")) result.extra["checksums"] = replicas.checksums();
    result.extra["losses"] = losses;
    result.extra["epochs"] = epochs;
    if (replicas.ranks() > 1) result.check = harness::Check::exact;  // the replicas are equal, bit for bit
    session.update(way.row, std::move(result));
  }

  static void print(const harness::Result& result, const bench::Epoch& epoch, std::size_t epochs) {
    std::cout << "# " << name_of(result.point) << ": ";
    if (epochs > 0) std::cout << "epoch " << epoch.number << " of " << epochs << ", ";
    std::cout << "loss " << harness::format_real(epoch.loss, 4);
    if (epoch.accuracy) std::cout << ", test accuracy " << harness::format_real(*epoch.accuracy, 4);
    std::cout << ", " << harness::format_seconds(epoch.seconds) << std::endl;
  }

  // As the textbook ends its training: "test acc: 0.84, 13.3 sec/epoch on [...]".
  static void print_closing(const harness::Result& result, const json& epochs, const harness::Devices& devices) {
    if (!result.point["epochs"].is_number() || !result.metrics.contains("test_accuracy")) return;
    double seconds = 0, whole = 0;
    for (const json& epoch : epochs) {
      if (!std::isfinite(epoch["seconds"].get<double>())) continue;
      seconds += epoch["seconds"].get<double>();
      ++whole;
    }
    std::cout << "# test acc: " << harness::format_real(result.metrics["test_accuracy"].get<double>(), 2) << ", "
              << harness::format_real(seconds / whole) << " sec/epoch on [";
    for (int rank = 0; rank < devices.size(); ++rank) std::cout << (rank > 0 ? ", " : "") << devices[rank].name();
    std::cout << "]\n";
  }

  // "lenet cpu:2 distributed ring", or "resnet18 winograd cpu:2 distributed ring".
  static std::string name_of(const json& point) {
    std::string name;
    for (const char* word : {"model", "math", "device", "strategy", "algorithm"}) {
      if (!point[word].is_string() || point[word] == "f32") continue;
      name.append(name.empty() ? "" : " ").append(point[word].get<std::string>());
    }
    return name;
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    const auto seconds = [&](const char* name) { return harness::format_seconds(metric(name)); };
    const auto text = [&](const char* name) {
      return result.point[name].is_null() ? "n/a" : result.point[name].get<std::string>();
    };
    const auto losses = result.extra.find("losses");
    const bool trained = losses != result.extra.end() && !losses->empty();
    columns_.print_row(
        std::cout, {text("model"), text("device"), text("math"), text("strategy"), text("algorithm"), text("overlap"),
                    std::to_string(result.point["global_batch"].get<int>()), seconds("step_seconds"),
                    seconds("compute_seconds"), seconds("communication_seconds"), seconds("exposed_seconds"),
                    harness::format_real(metric("images_per_second"), 4), harness::format_real(metric("speedup")),
                    harness::format_real(trained ? losses->back().get<double>() : std::nan(""), 4),
                    harness::format_real(metric("test_accuracy"), 4)});
    if (metric("planted_seconds") > 0) {
      const std::vector<double> waiting = result.metrics["waiting_seconds"];
      std::cout << "#   made slow by " << seconds("planted_seconds") << " a step; waiting, by rank:";
      for (const double each : waiting) std::cout << ' ' << harness::format_seconds(each);
      std::cout << '\n';
    }
    if (!result.extra.contains("root")) return;
    std::cout << "#   its root: " << harness::format_bytes(result.metrics["root_bytes"].get<std::size_t>())
              << " in and out and " << seconds("root_seconds") << " at work for all in a step, "
              << harness::format_bytes(result.metrics["memory_bytes"].get<std::size_t>()) << " of memory\n";
  }

  const harness::Options& options_;
  harness::MeasureSettings measuring_;
  harness::Table columns_;
  std::string scaling_;
  std::filesystem::path trace_;  // empty: none is wanted
  bench::Checkpoints checkpoints_;
  std::vector<json> blocks_;
  std::vector<std::string> titles_;  // of the points, and a step of each
  std::vector<std::vector<bench::Span>> timelines_;
  models::Dataset train_, test_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(
      "bench_train", "Times training steps on one device and several, and what their all-reduce costs; then trains.",
      bench::training_options(), argc, argv, [](const harness::Options& options) {
        return options.text("engine") == "simulated" ? bench::run_forecast(options) : Bench(options).run();
      });
}
