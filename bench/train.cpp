// SPDX-License-Identifier: Apache-2.0
// bench_train: the all-reduce inside real training steps. For each point the whole step, its compute alone and its
// communication alone are timed in interleaved rounds from the initial parameters, then the model is trained.
#include <cmath>
#include <iostream>
#include <set>

#include "allreduce/algorithms.hpp"
#include "bench/main.hpp"
#include "bench/session.hpp"
#include "bench/training/replicas.hpp"
#include "harness/clock.hpp"
#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using harness::Kind;
using nlohmann::json;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  std::vector<std::string> algorithms = {"all"};
  for (const auto& row : allreduce::algorithms()) algorithms.emplace_back(row.name);
  std::vector<std::string> models;
  for (const auto& row : models::catalogue()) models.emplace_back(row.name);
  const std::vector<harness::Option> own = {
      {.name = "model", .kind = Kind::names, .default_text = "lenet", .help = "what is trained", .allowed = models},
      {.name = "strategy",
       .kind = Kind::names,
       .default_text = "scratch,distributed",
       .help = "scratch: one all-reduce a parameter, after backward; distributed: buckets, while backward goes on",
       .allowed = {"scratch", "distributed"}},
      {.name = "algorithm",
       .kind = Kind::names,
       .default_text = "ring",
       .help = "which all-reduce, or all",
       .allowed = algorithms},
      {.name = "batch",
       .kind = Kind::integer,
       .default_text = "256",
       .help = "images of a step: of all devices with --scaling=strong, of each with weak",
       .minimum = 1,
       .maximum = 1e6},
      {.name = "scaling",
       .kind = Kind::choice,
       .help = "by default strong for one device count, weak for several",
       .allowed = {"weak", "strong"}},
      {.name = "lr", .kind = Kind::real, .default_text = "0.1", .help = "learning rate, of one device"},
      {.name = "lr-scaling",
       .kind = Kind::choice,
       .default_text = "linear",
       .help = "whether the learning rate grows with the global batch (weak scaling)",
       .allowed = {"linear", "none"}},
      {.name = "bucket",
       .kind = Kind::byte_count,
       .default_text = "25M",
       .help = "size of a bucket of gradients",
       .minimum = 1},
      {.name = "overlap",
       .kind = Kind::names,
       .default_text = "on",
       .help = "whether buckets are reduced while backward goes on",
       .allowed = {"on", "off"}},
      {.name = "data",
       .kind = Kind::choice,
       .default_text = "fashion_mnist",
       .help = "what it is trained on",
       .allowed = {"fashion_mnist", "synthetic"}},
      {.name = "data-dir", .kind = Kind::text, .help = "the folder of Fashion-MNIST's four files"},
      {.name = "init",
       .kind = Kind::choice,
       .default_text = "he",
       .help = "how parameters are drawn",
       .allowed = {"he", "std001", "default"}},
      {.name = "order",
       .kind = Kind::choice,
       .default_text = "shuffled",
       .help = "of the images in an epoch",
       .allowed = {"shuffled", "sequential"}},
      {.name = "steps", .kind = Kind::integer, .default_text = "50", .help = "train so many steps", .maximum = 1e9},
      {.name = "epochs", .kind = Kind::integer, .help = "train so many epochs instead", .minimum = 1, .maximum = 1e6},
      {.name = "eval", .kind = Kind::flag, .help = "test accuracy after each epoch, or after the steps"}};
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

class Bench {
 public:
  explicit Bench(const harness::Options& options)
      : options_(options),
        measuring_(bench::measure_settings(options)),
        columns_({{.title = "model", .left = true, .width = 6},
                  {.title = "device", .left = true, .width = 7},
                  {.title = "strategy", .left = true, .width = 11},
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
                  {.title = "accuracy", .width = 8}}) {
    if (options.given("steps") && options.given("epochs")) {
      throw harness::bad_value("epochs", options.text("epochs"), "either steps or epochs are given, not both");
    }
    const auto devices = bench::device_points(options, "cpu:2");
    std::set<std::string> alone;  // points of one device, which has nothing to reduce: one algorithm stands for all
    for (const auto& point : devices) {
      if (bench::ranks_of(options, point) == 1) alone.insert(point);
    }
    scaling_ = options.has("scaling") ? options.text("scaling") : devices.size() > 1 ? "weak" : "strong";
    const auto algorithms = allreduce::select_algorithms(options.names("algorithm"));
    for (const json& point : harness::points({{"model", bench::values(options.names("model"))},
                                              {"device", bench::values(devices)},
                                              {"strategy", bench::values(options.names("strategy"))},
                                              {"algorithm", bench::values(algorithms)},
                                              {"overlap", bench::values(options.names("overlap"))}})) {
      if (alone.contains(point["device"].get<std::string>()) && point["algorithm"] != algorithms[0]) continue;
      // Only buckets can overlap.
      if (point["strategy"] == "scratch" && point["overlap"] != options.names("overlap")[0]) continue;
      points_.push_back(point);
    }
  }

  int run() {
    if (options_.on("list")) {
      for (const json& point : points_) std::cout << point.dump() << '\n';
      return 0;
    }
    bench::Session session(options_, "bench_train", "points", points_.size(),
                           [this](const harness::Result& result) { print(result); });
    load_data();
    std::cout << "# " << scaling_ << " scaling: a batch of " << options_.integer("batch")
              << (scaling_ == "weak" ? " on each device" : " over all devices") << '\n';
    columns_.print_header(std::cout);
    for (const json& point : points_) {
      const auto devices = session.open(point["device"]);
      session.point(point.dump(), [&] { run_point(point, *devices, session); });
    }
    std::cout << "# exposed = step - compute: what communication costs; negative where it is below the noise\n";
    return session.finish();
  }

 private:
  void load_data() {
    if (options_.text("data") == "synthetic") {
      constexpr std::size_t train_images = 10000;
      constexpr std::size_t test_images = 1000;
      train_ = models::make_synthetic(train_images, 1);
      test_ = models::make_synthetic(test_images, 2);
      return;
    }
    train_ = models::load_fashion_mnist(models::Part::train, options_.text("data-dir"));
    if (options_.on("eval")) test_ = models::load_fashion_mnist(models::Part::test, options_.text("data-dir"));
  }

  bench::TrainingSettings settings_for(const json& point, int ranks) const {
    bench::TrainingSettings settings;
    settings.model = point["model"];
    settings.strategy = point["strategy"];
    settings.algorithm = point["algorithm"];
    settings.overlap = point["overlap"] == "on";
    settings.bucket_bytes = options_.byte_count("bucket");
    const bool weak = scaling_ == "weak";
    settings.global_batch = static_cast<std::size_t>(options_.integer("batch")) * (weak ? ranks : 1);
    settings.lr = options_.real("lr") * (weak && options_.text("lr-scaling") == "linear" ? ranks : 1);
    settings.order =
        options_.text("order") == "shuffled" ? models::Sampler::Order::shuffled : models::Sampler::Order::sequential;
    settings.replica.init = models::parse_init(options_.text("init"));
    settings.replica.seed = static_cast<std::uint64_t>(options_.integer("seed"));
    return settings;
  }

  void run_point(const json& point, harness::Devices& devices, bench::Session& session) {
    const int ranks = devices.size();
    const bench::TrainingSettings settings = settings_for(point, ranks);
    harness::Result result;
    result.bench = "train";
    result.oversubscribed = devices.oversubscribed();
    result.point = point;
    const bool epochs = options_.has("epochs");
    const json more = {{"ranks", ranks},
                       {"threads", devices.threads()},
                       {"engine", "streams"},
                       {"launch", "eager"},
                       {"backend", settings.replica.backend},
                       {"math", "f32"},
                       {"batch", (settings.global_batch + ranks - 1) / ranks},
                       {"global_batch", settings.global_batch},
                       {"scaling", scaling_},
                       {"lr", settings.lr},
                       {"lr_scaling", options_.text("lr-scaling")},
                       {"init", options_.text("init")},
                       {"seed", options_.integer("seed")},
                       {"order", options_.text("order")},
                       {"steps", epochs ? json(nullptr) : json(options_.integer("steps"))},
                       {"epochs", epochs ? json(options_.integer("epochs")) : json(nullptr)},
                       {"bucket_bytes", settings.bucket_bytes},
                       {"data", options_.text("data")},
                       {"slow", nullptr}};
    result.point.update(more);
    if (settings.strategy == "scratch") result.point["overlap"] = nullptr;
    result.command = command_for(result.point);
    const std::size_t row = session.add(result);

    bench::Replicas replicas(devices, train_, settings);
    measure(replicas, settings, result);
    compare_with_baseline(session.results(), result);
    session.update(row, result);
    train(replicas, result, session);
    result.extra["checksums"] = replicas.checksums();
    if (ranks > 1) result.check = harness::Check::exact;  // the replicas are equal, bit for bit
    session.update(row, result);
  }

  // Repeats this point alone.
  std::vector<std::string> command_for(const json& point) const {
    std::vector<std::string> command = {"bench_train"};
    const auto add = [&](const std::string& name, const std::string& value) {
      command.push_back(std::string("--").append(name).append("=").append(value));
    };
    for (const char* name : {"model", "device", "strategy", "algorithm", "scaling"}) add(name, point[name]);
    if (point["overlap"].is_string()) add("overlap", point["overlap"]);
    for (const char* name : {"threads", "batch", "lr", "lr-scaling", "bucket", "data", "data-dir", "init", "order",
                             "seed", "epochs", "eval"}) {
      if (options_.given(name)) add(name, options_.text(name));
    }
    if (!options_.has("epochs")) add("steps", options_.text("steps"));
    return command;
  }

  void measure(bench::Replicas& replicas, const bench::TrainingSettings& settings, harness::Result& result) {
    const double before_load = harness::steady_seconds();
    replicas.load(0, 0);
    const double load = harness::steady_seconds() - before_load;
    const std::vector<float> initial = replicas.parameters();
    bench::Phases phases;
    std::vector<harness::Trial> trials;
    for (const bench::Work work : {bench::Work::step, bench::Work::compute, bench::Work::communication}) {
      trials.push_back({[&, work](int runs) {
                          double seconds = 0;
                          for (int run = 0; run < runs; ++run) seconds += replicas.run(work);
                          if (work == bench::Work::step) phases = replicas.phases();
                          return seconds / runs;
                        },
                        [&] { replicas.restore(initial); }});
    }
    const auto measured = harness::measure(trials, measuring_);
    replicas.restore(initial);
    const double step = measured[0].seconds;
    const double compute = measured[1].seconds;
    const bool alone = result.point["ranks"] == 1;
    const double communication = alone ? 0 : measured[2].seconds;
    const double images = static_cast<double>(settings.global_batch) / step;
    bench::record_samples(result, measured[0]);
    result.metrics = {{"step_seconds", step},
                      {"compute_seconds", compute},
                      {"communication_seconds", communication},
                      {"exposed_seconds", step - compute},
                      {"hidden_seconds", communication - (step - compute)},
                      {"forward_seconds", phases.forward},
                      {"backward_seconds", phases.backward},
                      {"optimizer_seconds", phases.optimizer},
                      {"load_seconds", load},
                      {"images_per_second", images},
                      {"images_per_second_per_device", images / result.point["ranks"].get<int>()},
                      {"communication_fraction", std::max(0.0, (step - compute) / step)},
                      {"parameters", replicas.size()},
                      {"parameter_bytes", replicas.size() * sizeof(float)}};
    json buckets = json::array();
    for (const models::Slice& slice : replicas.reductions()) {
      buckets.push_back({{"index", buckets.size()},
                         {"bytes", slice.count * sizeof(float)},
                         {"first", slice.offset},
                         {"count", slice.count}});
    }
    result.extra["buckets"] = buckets;
  }

  // Speed-up is against the first result of one device with the same model and strategy.
  static void compare_with_baseline(const std::vector<harness::Result>& results, harness::Result& result) {
    const double images = result.metrics["images_per_second"];
    const int ranks = result.point["ranks"];
    double baseline = ranks == 1 ? images : 0;
    if (ranks == 1) result.extra["baseline"] = result.point["device"];
    for (const harness::Result& other : results) {
      if (ranks == 1 || other.point["ranks"] != 1 || other.point["model"] != result.point["model"] ||
          other.point["strategy"] != result.point["strategy"] || !other.metrics.contains("images_per_second")) {
        continue;
      }
      baseline = other.metrics["images_per_second"];
      result.extra["baseline"] = other.point["device"];
      break;
    }
    if (baseline <= 0) return;
    result.metrics["speedup"] = images / baseline;
    result.metrics["scaling_efficiency"] = images / baseline / ranks;
  }

  void train(bench::Replicas& replicas, harness::Result& result, bench::Session& session) {
    json losses = json::array();
    json epochs = json::array();
    const std::size_t whole_epochs = options_.has("epochs") ? static_cast<std::size_t>(options_.integer("epochs")) : 0;
    const std::size_t steps =
        whole_epochs ? whole_epochs * replicas.batches() : static_cast<std::size_t>(options_.integer("steps"));
    double began = harness::steady_seconds();
    double epoch_loss = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t batch = step % replicas.batches();
      session.show(static_cast<double>(step) / static_cast<double>(steps),
                   "step " + std::to_string(step + 1) + " of " + std::to_string(steps) + " of " + result.point.dump());
      replicas.load(step / replicas.batches(), batch);
      replicas.run(bench::Work::step);
      losses.push_back(replicas.mean_loss());
      epoch_loss += replicas.mean_loss();
      const bool last = step + 1 == steps;
      if (batch + 1 != replicas.batches() && !last) continue;
      const double seconds = harness::steady_seconds() - began;
      json epoch = {{"epoch", epochs.size() + 1},
                    {"seconds", seconds},
                    {"train_loss", epoch_loss / static_cast<double>(batch + 1)}};
      if (options_.on("eval")) {
        epoch["test_accuracy"] = replicas.accuracy(test_);
        result.metrics["test_accuracy"] = epoch["test_accuracy"];
      }
      if (whole_epochs || options_.on("eval")) epochs.push_back(epoch);
      epoch_loss = 0;
      began = harness::steady_seconds();
    }
    result.extra["losses"] = losses;
    result.extra["epochs"] = epochs;
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    const auto seconds = [&](const char* name) { return harness::format_seconds(metric(name)); };
    const json& point = result.point;
    const auto losses = result.extra.find("losses");
    const bool trained = losses != result.extra.end() && !losses->empty();
    columns_.print_row(std::cout,
                       {point["model"], point["device"], point["strategy"], point["algorithm"],
                        point["overlap"].is_null() ? "n/a" : point["overlap"].get<std::string>(),
                        std::to_string(point["global_batch"].get<int>()), seconds("step_seconds"),
                        seconds("compute_seconds"), seconds("communication_seconds"), seconds("exposed_seconds"),
                        harness::format_real(metric("images_per_second"), 4), harness::format_real(metric("speedup")),
                        harness::format_real(trained ? losses->back().get<double>() : std::nan(""), 4),
                        harness::format_real(metric("test_accuracy"), 4)});
  }

  const harness::Options& options_;
  harness::MeasureSettings measuring_;
  harness::Table columns_;
  std::string scaling_;
  std::vector<json> points_;
  models::Dataset train_, test_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(
      "bench_train", "Times training steps on one device and several, and what their all-reduce costs; then trains.",
      table(), argc, argv, [](const harness::Options& options) { return Bench(options).run(); });
}
