// SPDX-License-Identifier: Apache-2.0
// bench_model: forward, backward and update of a model without any communication, whole and layer by layer. Backends
// are timed against each other in interleaved rounds, after each was compared with the plain one.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>

#include "bench/main.hpp"
#include "bench/replicas.hpp"
#include "bench/session.hpp"
#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/statistics.hpp"
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"
#include "models/dataset.hpp"
#include "models/model.hpp"

namespace {

using harness::Kind;
using nlohmann::json;

constexpr int images_to_check = 4;
constexpr double tolerance_of_f32 = 1e-4;       // of a parameter's gradient, as a fraction of its norm
constexpr double tolerance_of_rounding = 5e-2;  // Winograd's rounds more, and a GPU adds up in another order: ReLUs
                                                // near zero go the other way
constexpr double tolerance_of_tf32 = 0.2;       // of 11 bits
constexpr double tolerance_of_bf16 = 0.6;       // of 8 bits
constexpr double nothing = 1e-2;                // a norm as small as this fraction of the largest
constexpr int fewest_profiles = 3;
constexpr int most_profiles = 50;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  std::vector<std::string> models, backends;
  for (const auto& row : models::catalogue()) models.emplace_back(row.name);
  for (const auto& row : models::backends()) backends.emplace_back(row.name);
  const std::vector<harness::Option> own = {
      {.name = "model", .kind = Kind::names, .default_text = "lenet", .help = "what is timed", .allowed = models},
      {.name = "backend",
       .kind = Kind::names,
       .help = "who computes the layers; by itself the fastest that the device has",
       .allowed = backends},
      {.name = "batch",
       .kind = Kind::integers,
       .default_text = "256",
       .help = "images on each device",
       .minimum = 1,
       .maximum = 1e6},
      {.name = "math",
       .kind = Kind::names,
       .default_text = "f32",
       .help = "arithmetic of the layers; winograd: convolutions of 3x3 by Winograd's algorithm, where oneDNN has it; "
               "tf32, and bf16 with parameters in f32: what GPUs multiply",
       .allowed = {"f32", "winograd", "tf32", "bf16"}},
      {.name = "init",
       .kind = Kind::choice,
       .default_text = "he",
       .help = "how parameters are drawn",
       .allowed = {"he", "std001", "default"}}};
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

// One replica on each device, all with the same images; they never communicate.
class Contender {
 public:
  Contender(harness::Devices& devices, const std::string& model, const models::ModelSettings& settings)
      : replicas_(devices, model, settings) {
    const models::ModelRow& row = models::find_model(model);
    const auto data = models::make_synthetic(settings.capacity, settings.seed, row.input, row.classes);
    bench::Batch batch{&data};
    for (int rank = 0; rank < devices.size(); ++rank) {
      for (std::size_t image = 0; image < data.size(); ++image) batch.images.push_back(image);
      batch.shards.push_back(data.size());
    }
    replicas_.load(batch);
    replicas_.forward();
    replicas_.backward();
    replicas_.sync();
  }

  models::Model& model() const { return replicas_.model(); }
  double forward(int runs) {
    return time(runs, [this] { replicas_.forward(); });
  }
  double backward(int runs) {
    return time(runs, [this] { replicas_.backward(); });
  }
  // At a rate of 0: what it costs does not depend on it, and the parameters stay.
  double update(int runs) {
    return time(runs, [this] { replicas_.update({.lr = 0}); });
  }
  double step(int runs) {
    return time(runs, [this] {
      replicas_.forward();
      replicas_.backward();
      replicas_.update({.lr = 0});
    });
  }

  double forward_of(int layer) {
    return time(1, [&] { replicas_.forward(layer); });
  }
  double backward_of(int layer) {
    return time(1, [&] { replicas_.backward(layer); });
  }

  // How far the gradients of the first images are from those of the plain backend, at worst.
  double distance_from_plain(const std::string& name, models::ModelSettings settings) {
    settings.backend = "plain";
    settings.math = models::Math::f32;
    settings.capacity = std::min(replicas_.images(0), images_to_check);
    const auto host = harness::open_devices("cpu:1");
    const auto stream = (*host)[0].make_stream();
    const auto plain = models::make_model(name, *stream, settings);
    const auto fetch = [&](const auto* from, auto* to, std::size_t count) {
      replicas_.stream(0).copy(from, to, count * sizeof *to);
    };
    fetch(model().images(), plain->images(), settings.capacity * model().input().size());
    fetch(model().labels(), plain->labels(), settings.capacity);
    replicas_.sync();
    for (models::Model* each : {&model(), plain.get()}) {
      each->forward(settings.capacity);
      for (int layer = each->layers() - 1; layer >= 0; --layer) each->backward(layer, settings.capacity);
    }
    std::vector<float> gradients(model().size());
    fetch(model().gradients(), gradients.data(), gradients.size());
    replicas_.sync();
    stream->sync();
    std::vector<double> off, norm;  // squares, a parameter each
    for (const auto& parameter : plain->parameter_table()) {
      off.push_back(0);
      norm.push_back(0);
      for (std::size_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
        off.back() += std::pow(double{gradients[i]} - plain->gradients()[i], 2);
        norm.back() += std::pow(double{plain->gradients()[i]}, 2);
      }
    }
    // The gradient of a bias that batch norm takes away again is nothing but rounding.
    const double least = nothing * nothing * *std::max_element(norm.begin(), norm.end());
    double worst = 0;
    for (std::size_t i = 0; i < off.size(); ++i) {
      const double distance = std::sqrt(off[i] / std::max(norm[i], least));
      if (!(distance <= worst)) worst = distance;
    }
    return worst;
  }

 private:
  // Seconds of one run.
  double time(int runs, const std::function<void()>& issue) const {
    return replicas_.time([&] {
      for (int i = 0; i < runs; ++i) issue();
    }) / runs;
  }

  bench::Replicas replicas_;
};

// Multiplications and additions of a layer, forward and backward, on so many images; nothing but those of weights.
double flops(const models::Model& model, int layer, int images) {
  for (const auto& parameter : model.parameter_table()) {
    if (parameter.layer != layer || parameter.role != models::Role::weight) continue;
    const double passes = layer == 0 ? 2 : 3;  // nobody wants the gradient of the images
    return passes * 2 * static_cast<double>(parameter.count) * model.layer_shape(layer).pixels() * images;
  }
  return 0;
}

double tolerance_of(const json& point) {
  if (point["math"] == "bf16") return tolerance_of_bf16;
  if (point["math"] == "tf32") return tolerance_of_tf32;
  return point["math"] == "winograd" || point["backend"] == "cudnn" ? tolerance_of_rounding : tolerance_of_f32;
}

class Bench {
 public:
  explicit Bench(const harness::Options& options)
      : options_(options),
        measuring_(bench::measure_settings(options, 4)),
        columns_({{.title = "model", .left = true, .width = 6},
                  {.title = "device", .left = true, .width = 7},
                  {.title = "backend", .left = true, .width = 7},
                  {.title = "math", .left = true, .width = 8},
                  {.title = "batch", .width = 6},
                  {.title = "forward", .width = 9},
                  {.title = "backward", .width = 9},
                  {.title = "update", .width = 9},
                  {.title = "step", .width = 9},
                  {.title = "images/s", .width = 9},
                  {.title = "GFLOP/s", .width = 8},
                  {.title = "check", .width = 9}},
                 harness::screen_of(STDOUT_FILENO)) {
    for (const auto& backend : options.names("backend")) models::find_backend(backend);
    blocks_ = harness::points({{"model", bench::values(options.names("model"))},
                               {"device", bench::values(bench::device_points(options, "cpu:1"))},
                               {"math", bench::values(options.names("math"))},
                               {"batch", bench::values(options.integers("batch"))}});
    bench::name_what_is_the_same(columns_, blocks_, {{"math", "math"}});
  }

  int run() {
    if (options_.on("list")) {
      for (json block : blocks_) {
        for (const auto& backend : backends_on(*harness::open_devices(block["device"].get<std::string>()))) {
          block["backend"] = backend;
          std::cout << block.dump() << '\n';
        }
      }
      return 0;
    }
    bench::Session session(options_, "bench_model", "points", blocks_.size(),
                           [this](const harness::Result& result) { print(result); });
    columns_.print_header(std::cout);
    for (const json& block : blocks_) {
      const auto devices = session.open(block["device"]);
      session.point(block.dump(), [&] { run_block(block, backends_on(*devices), *devices, session); });
    }
    std::cout << "# step is timed as a whole, not added up; check: gradients against the plain backend's\n";
    return session.finish();
  }

 private:
  std::vector<std::string> backends_on(const harness::Devices& devices) const {
    if (options_.given("backend")) return options_.names("backend");
    return {std::string(models::default_backend(devices[0]))};
  }

  harness::Result describe(const json& block, const std::string& backend, const harness::Devices& devices) const {
    harness::Result result = bench::result_on(devices);
    result.bench = "model";
    result.point = block;
    result.point.update({{"backend", backend},
                         {"ranks", devices.size()},
                         {"threads", devices.threads()},
                         {"data", "synthetic"},
                         {"init", options_.text("init")},
                         {"seed", options_.integer("seed")}});
    result.command = {"bench_model"};
    for (const char* axis : {"model", "device", "threads", "backend", "batch", "math", "init", "seed"}) {
      const json& value = result.point[axis];
      result.command.push_back(std::string("--").append(axis).append("=").append(
          value.is_string() ? value.get<std::string>() : value.dump()));
    }
    return result;
  }

  void run_block(const json& block, const std::vector<std::string>& backends, harness::Devices& devices,
                 bench::Session& session) {
    const std::string model = block["model"];
    models::ModelSettings settings;
    settings.capacity = block["batch"];
    settings.init = models::parse_init(options_.text("init"));
    settings.seed = measuring_.seed;
    settings.math = models::parse_math(block["math"].get<std::string>());

    const std::size_t first = session.results().size();
    for (const auto& backend : backends) session.add(describe(block, backend, devices));
    if (session.taken_over()) return;
    std::vector<std::unique_ptr<Contender>> contenders;
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < backends.size(); ++i) {
      settings.backend = backends[i];
      const std::size_t row = first + i;
      const auto failure =
          bench::attempt([&] { contenders.push_back(std::make_unique<Contender>(devices, model, settings)); });
      if (failure) {
        session.give_up(row, *failure);
        continue;
      }
      rows.push_back(row);
      check(row, contenders.back()->distance_from_plain(model, settings), session);
    }
    measure(contenders, rows, session);
  }

  void measure(const std::vector<std::unique_ptr<Contender>>& contenders, const std::vector<std::size_t>& rows,
               bench::Session& session) const {
    enum Quantity { forward, backward, update, step, quantities };
    constexpr const char* names[] = {"forward_seconds", "backward_seconds", "optimizer_seconds", "step_seconds"};
    std::vector<harness::Trial> trials;
    for (const auto& contender : contenders) {
      Contender& timed = *contender;
      trials.push_back({[&timed](int runs) { return timed.forward(runs); }});
      trials.push_back({[&timed](int runs) { return timed.backward(runs); }});
      trials.push_back({[&timed](int runs) { return timed.update(runs); }});
      trials.push_back({[&timed](int runs) { return timed.step(runs); }});
    }
    harness::measure(trials, measuring_, [&](std::size_t index, const harness::Measurement& measured) {
      const std::size_t contender = index / quantities;
      harness::Result result = session.results()[rows[contender]];
      result.metrics[names[index % quantities]] = measured.seconds;
      if (index % quantities == step) record(result, measured, contenders[contender]->model());
      session.update(rows[contender], std::move(result));
    });
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      harness::Result result = session.results()[rows[i]];
      result.extra["layers"] = profile(*contenders[i], result.metrics["step_seconds"], result.point["batch"]);
      session.update(rows[i], std::move(result));
    }
  }

  static void check(std::size_t row, double distance, bench::Session& session) {
    harness::Result result = session.results()[row];
    result.metrics["gradient_distance"] = distance;
    const double tolerance = tolerance_of(result.point);
    result.check = distance <= tolerance ? harness::Check::tolerance : harness::Check::failed;
    if (result.check == harness::Check::failed) {
      result.status = harness::Status::failed;
      result.reason = "a gradient differs from the plain backend's by " + harness::format_real(distance) +
                      " of its norm, where " + harness::format_real(tolerance) + " is allowed";
    }
    session.update(row, std::move(result));
  }

  static void record(harness::Result& result, const harness::Measurement& measured, const models::Model& model) {
    bench::record_samples(result, measured);
    const int batch = result.point["batch"], ranks = result.point["ranks"];
    double work = 0;  // of one device
    for (int layer = 0; layer < model.layers(); ++layer) work += flops(model, layer, batch);
    result.metrics.update({{"low", bench::low_of(measured)},
                           {"high", bench::high_of(measured)},
                           {"images_per_second", batch * ranks / measured.seconds},
                           {"images_per_second_per_device", batch / measured.seconds},
                           {"parameters", model.size()},
                           {"parameter_bytes", model.size() * sizeof(float)},
                           {"flops", work * ranks},
                           {"flops_per_second", work * ranks / measured.seconds}});
  }

  // Layer by layer, apart from the samples: the clock between two layers costs time itself.
  json profile(Contender& contender, double step_seconds, int batch) const {
    const models::Model& model = contender.model();
    const int repetitions =
        std::clamp(static_cast<int>(measuring_.budget_seconds / step_seconds), fewest_profiles, most_profiles);
    std::vector<std::vector<double>> forward(model.layers()), backward(model.layers());
    for (int i = 0; i < repetitions; ++i) {
      for (int layer = 0; layer < model.layers(); ++layer) forward[layer].push_back(contender.forward_of(layer));
      for (int layer = model.layers() - 1; layer >= 0; --layer) backward[layer].push_back(contender.backward_of(layer));
    }
    json layers = json::array();
    for (int layer = 0; layer < model.layers(); ++layer) {
      std::size_t parameters = 0;
      for (const auto& parameter : model.parameter_table()) {
        if (parameter.layer == layer) parameters += parameter.count;
      }
      const double work = flops(model, layer, batch);
      layers.push_back({{"name", model.layer_name(layer)},
                        {"forward_seconds", harness::median(forward[layer])},
                        {"backward_seconds", harness::median(backward[layer])},
                        {"parameters", parameters},
                        {"flops", work > 0 ? json(work) : json(nullptr)}});
    }
    return layers;
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    const auto time = [&](const char* name) { return harness::format_seconds(metric(name)); };
    columns_.print_row(
        std::cout,
        {result.point["model"], result.point["device"], result.point["backend"], result.point["math"],
         result.point["batch"].dump(), time("forward_seconds"), time("backward_seconds"), time("optimizer_seconds"),
         time("step_seconds"), harness::format_real(metric("images_per_second")),
         harness::format_real(metric("flops_per_second") / 1e9),
         result.status == harness::Status::ok ? harness::name_of(result.check) : harness::name_of(result.status)});
  }

  const harness::Options& options_;
  harness::MeasureSettings measuring_;
  harness::Table columns_;
  std::vector<json> blocks_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main("bench_model", "Times a model's forward, backward and update, without communication.", table(),
                         argc, argv, [](const harness::Options& options) { return Bench(options).run(); });
}
