// SPDX-License-Identifier: Apache-2.0
// bench_allreduce: all-reduce alone, or another collective. Contenders that differ only in algorithm and launch are
// checked, then timed in interleaved rounds on the same vectors.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <numeric>

#include "allreduce/algorithms.hpp"
#include "allreduce/check.hpp"
#include "allreduce/engine.hpp"
#include "bench/contenders.hpp"
#include "bench/expected.hpp"
#include "bench/main.hpp"
#include "bench/schedules.hpp"
#include "bench/session.hpp"
#include "bench/simulated.hpp"
#include "bench/tuning.hpp"
#include "bench/yardstick.hpp"
#include "harness/device/device.hpp"
#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/statistics.hpp"
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using harness::Kind;
using nlohmann::json;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  const std::vector<harness::Option> own = {
      {.name = "bytes",
       .kind = Kind::bytes,
       .default_text = "1K:64M:x4",
       .help = "size of each rank's vector",
       .range_forms = "befi"},
      {.name = "dtype",
       .short_form = "d",
       .kind = Kind::names,
       .default_text = "f32",
       .help = "element types",
       .allowed = {"f32", "f64", "f16", "bf16", "i32"},
       .aliases = {{"float", "f32"}, {"double", "f64"}, {"half", "f16"}, {"bfloat16", "bf16"}, {"int32", "i32"}}},
      {.name = "op",
       .short_form = "o",
       .kind = Kind::names,
       .default_text = "sum",
       .help = "reduction operations",
       .allowed = {"sum", "avg", "min", "max", "prod"}},
      {.name = "placement",
       .kind = Kind::names,
       .default_text = "in_place",
       .help = "where the result goes",
       .allowed = {"in_place", "out_of_place"}},
      {.name = "pieces",
       .kind = Kind::integers,
       .default_text = "1",
       .help = "pieces of a chunk, for pipelining",
       .minimum = 1,
       .maximum = 1024},
      {.name = "check",
       .short_form = "c",
       .kind = Kind::flag,
       .default_text = "on",
       .help = "compare every element with the exact answer, before and after timing"},
      {.name = "mode",
       .kind = Kind::choice,
       .default_text = "time",
       .help = "time the points, or only check them",
       .allowed = {"time", "check"}}};
  for (const auto& more : {bench::contender_options(), bench::schedule_options(), bench::tuning_options(), own,
                           bench::simulation_options()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

// One contender of a block: a row of the report, and the program behind it.
struct Contender {
  std::size_t row;
  harness::Result result;
  bench::Prepared prepared = {};
  std::vector<double> means = {};  // of each sample's ranks, where they are processes
};

std::vector<harness::Column> columns(bool chooses, bool expects) {
  std::vector<harness::Column> all = {{.title = "bytes", .width = 10},
                                      {.title = "count", .width = 10},
                                      {.title = "type", .width = 5},
                                      {.title = "redop", .width = 5},
                                      {.title = "engine", .left = true, .width = 10},
                                      {.title = "algorithm", .left = true, .width = chooses ? 23U : 18U},
                                      {.title = "launch", .left = true, .width = 6},
                                      {.title = "placement", .left = true, .width = 12},
                                      {.title = "device", .left = true, .width = 8},
                                      {.title = "time", .width = 9},
                                      {.title = "algbw", .width = 9},
                                      {.title = "busbw", .width = 9},
                                      {.title = "of bound", .width = 8},
                                      {.title = "wrong", .width = 5}};
  if (expects) {
    all.push_back({.title = "expected", .width = 9});
    all.push_back({.title = "verdict", .left = true, .width = 11});
  }
  return all;
}

// The points of --device, where some engine measures.
std::vector<std::string> measured_devices(const harness::Options& options, const harness::World& world) {
  if (options.names("engine") == std::vector<std::string>{"simulated"}) return {};
  return bench::in_rank_order(bench::device_points(options, world.joined() ? "cpu:1" : harness::default_point()),
                              options);
}

class Bench {
 public:
  Bench(const harness::Options& options, harness::World& world)
      : options_(options),
        world_(world),
        settings_(bench::measure_settings(options)),
        schedules_(options),
        contenders_(options, schedules_, world),
        tuning_(bench::make_tuning(options, schedules_)),
        devices_(measured_devices(options, world)),
        expectations_(options, schedules_, devices_),
        columns_(columns(schedules_.chooses(), expectations_.known()), harness::screen_of(STDOUT_FILENO)) {
    settings_.agree = [this](double seconds) { return world_.max(seconds); };
    if (world.size() > 1 && options.given("topology")) {
      throw harness::bad_value("topology", options.text("topology"), "rows of several processes are held against none");
    }
    const std::vector<std::string>& engines = contenders_.engines();
    if (engines != options.names("engine")) {
      if (engines.empty() && options.given("device")) {
        throw harness::bad_value("device", options.text("device"),
                                 "the simulated engine has the devices of --topology");
      }
      simulated_.emplace(options, schedules_);
    } else {
      if (options.given("software")) {
        throw harness::bad_value("software", options.text("software"), "only --engine=simulated takes it");
      }
      if (options.given("without") && !options.given("topology")) {
        throw harness::bad_value("without", options.text("without"), "it takes away from --topology");
      }
      if (options.given("topology") && !expectations_.known()) {
        throw harness::bad_value("topology", options.text("topology"), "measured rows are held against one of them");
      }
    }
    if (engines.empty()) return;
    blocks_ = harness::points({{"device", bench::values(devices_)},
                               {"dtype", bench::values(options.names("dtype"))},
                               {"op", schedules_.ops()},
                               {"placement", bench::values(options.names("placement"))},
                               {"pieces", bench::values(options.integers("pieces"))},
                               {"bytes", bench::values(options.bytes("bytes"))}});
    if (!schedules_.fits_any_ranks() || (options.given("topology") && !simulated_)) {
      std::map<std::string, int> ranks;  // of a device; finding out opens it
      for (const json& block : blocks_) {
        const auto [known, fresh] = ranks.try_emplace(block["device"].get<std::string>());
        if (fresh) known->second = ranks_of(known->first);
        schedules_.require_fitting(shape_of(block, known->second));
        if (!simulated_) expectations_.require_ranks(known->first, known->second);
      }
    }
    trials_ = contenders_.trials();
    for (const json& block : blocks_) {
      if (schedules_.chooses() && !expectations_.known()) require_tuned(block);
    }
    bench::name_what_is_the_same(
        columns_, blocks_, {{"type", "dtype"}, {"redop", "op"}, {"placement", "placement"}, {"device", "device"}});
    bench::name_what_is_the_same(columns_, trials_, {{"launch", "launch"}});
    bench::name_what_is_the_same(columns_, trials_, {{"engine", "engine"}});
    if (engines == std::vector<std::string>{"streams"} && !schedules_.chooses()) {
      bench::name_what_is_the_same(columns_, trials_, {{"algorithm", "algorithm"}});
    }
    columns_.only("count", "bytes / size of the type");
  }

  int run() {
    if (options_.has("export")) {
      const int ranks = blocks_.empty() ? simulated_->ranks() : ranks_of(blocks_[0]["device"]);
      const json& first = blocks_.empty() ? simulated_->points()[0] : blocks_[0];
      schedules_.write(options_.text("export"), shape_of(first, ranks));
      return 0;
    }
    if (options_.on("list")) {
      for (const json& block : blocks_) {
        for (const json& trial : trials_) {
          json point = block;
          point.update(trial);
          std::cout << point.dump() << '\n';
        }
      }
      if (simulated_) {
        for (const json& point : simulated_->points()) std::cout << point.dump() << '\n';
      }
      return 0;
    }
    bench::Session session(
        options_, "bench_allreduce", "points", blocks_.size() + (simulated_ ? simulated_->points().size() : 0),
        [this](const harness::Result& result) {
          result.nature == harness::Nature::simulated ? simulated_->print(result) : print(result);
        },
        world_);
    if (!blocks_.empty()) measure(session);
    if (simulated_) {
      simulated_->print_header();
      simulated_->run(session);
      simulated_->print_footer();
    }
    return session.finish();
  }

 private:
  // Of a point of --device, which one process opens to find out.
  int ranks_of(const std::string& device) const {
    return world_.size() > 1 ? world_.size() : bench::ranks_of(options_, device);
  }

  bool is_allreduce() const { return schedules_.collective() == allreduce::Collective::allreduce; }

  // Throws UsageError where the choice of --algorithm=auto is not known of some trial.
  void require_tuned(json point) const {
    for (const json& trial : trials_) {
      point.update(trial);
      if (point["algorithm"] != "auto" || tuning_->choose(point)) continue;
      throw harness::bad_value("algorithm", "auto",
                               "of " + point["device"].get<std::string>() +
                                   " with --launch=" + point["launch"].get<std::string>() +
                                   " nothing is known: --tune there first, or describe it by --topology");
    }
  }

  json choose(const json& point, const allreduce::Shape& shape) const {
    const auto tuned = tuning_->choose(point);
    return tuned ? *tuned : expectations_.fastest(point, shape);
  }

  void measure(bench::Session& session) {
    columns_.print_header(std::cout);
    std::unique_ptr<harness::Devices> devices;
    for (const json& block : blocks_) {
      if (!devices || devices->text() != block["device"].get<std::string>()) devices = session.open(block["device"]);
      session.point(block.dump(), [&] { run_block(block, *devices, session); });
    }
    const allreduce::Collective collective = schedules_.collective();
    const char* factor = is_allreduce() ? "2(n-1)/n" : allreduce::has_slices(collective) ? "(n-1)/n" : "1";
    std::cout << "# busbw is algbw * " << factor
              << " as nccl-tests defines it; it is link speed for algorithms that move just so much over every link "
                 "(ring), and not for the others\n";
    if (expectations_.known()) {
      std::cout << "# expected: simulated on the topology, not measured; verdict: measured over expected, as "
                   "expected within "
                << harness::format_real(bench::same_within) << "x\n"
                << bench::slowest_of(session.results());
    }
    if (tuning_ && options_.on("tune")) tuning_->keep(session.results());
    if (!is_allreduce() || world_.size() > 1) return;
    std::cout << "# the bound: as many threads, each reading and writing its part of all vectors once, with no order "
                 "between them\n";
  }

  static allreduce::Shape shape_of(const json& block, int ranks) {
    return {ranks, block["pieces"],
            block["placement"] == "in_place" ? allreduce::Placement::in_place : allreduce::Placement::out_of_place};
  }

  // Ranks that are processes have one device each; else all are here.
  int ranks_on(const harness::Devices& devices) const { return world_.size() > 1 ? world_.size() : devices.size(); }

  void run_block(const json& block, harness::Devices& devices, bench::Session& session) {
    const harness::Dtype dtype = *harness::parse_dtype(block["dtype"].get<std::string>());
    const harness::Op op =
        block["op"].is_null() ? harness::Op::sum : *harness::parse_op(block["op"].get<std::string>());
    const int ranks = ranks_on(devices);
    const allreduce::Shape shape = shape_of(block, ranks);
    const std::size_t count = block["bytes"].get<std::size_t>() / harness::size_of(dtype);
    const allreduce::Pattern pattern{dtype, op, ranks, settings_.seed, schedules_.collective(), schedules_.root()};

    std::optional<allreduce::Vectors> vectors;  // outlives what is prepared on it
    std::vector<Contender> contenders;
    for (const json& trial : trials_) {
      harness::Result result = bench::result_on(devices);
      result.oversubscribed = world_.max(result.oversubscribed ? 1 : 0) > 0;
      result.point = block;
      result.point.update(trial);
      result.point["bytes"] = count * harness::size_of(dtype);
      result.point["ranks"] = ranks;
      result.point["threads"] = devices.threads();
      result.point["topology"] = nullptr;
      if (result.point["algorithm"] == "auto") result.extra["chosen"] = choose(result.point, shape);
      result.command = contenders_.command_for(result.point);
      if (options_.given("topology") && expectations_.known()) {
        result.command.push_back("--topology=" + options_.text("topology"));
        if (options_.given("without")) result.command.push_back("--without=" + options_.text("without"));
      }
      schedules_.describe(result, shape);
      contenders.push_back({session.add(result), std::move(result)});
    }
    if (session.taken_over()) return;
    const auto failure = bench::attempt_together(world_, [&] {
      vectors.emplace(devices, pattern, count, shape.placement, world_.size() > 1 ? &world_ : nullptr,
                      [&](harness::Device& device, std::size_t bytes) { return contenders_.allocate(device, bytes); });
    });
    if (failure) return session.give_up(*failure);
    for (Contender& contender : contenders) {
      const json& point = contender.result.point;
      const allreduce::Problem problem{
          &devices,
          count,
          dtype,
          op,
          point["launch"] == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager,
          {vectors->buffers()},
          point["direction"] == "push" ? allreduce::Direction::push : allreduce::Direction::pull,
          point["fused"] == "on"};
      if (const auto why = contenders_.refuses(contender.result, problem)) {
        session.give_up(contender.row, {harness::Status::refused, *why});
        continue;
      }
      session.at(what_of(contender.result));
      contender.prepared = contenders_.prepare(contender.result, shape, problem);
      check(contender, *vectors);
      session.update(contender.row, contender.result);
    }
    std::erase_if(contenders, [](const Contender& contender) { return contender.prepared.program == nullptr; });

    if (options_.text("mode") == "check") return;
    time(contenders, *vectors, devices, session);
    for (Contender& contender : contenders) {
      if (auto expected = expectations_.of(contender.result, devices, shape); !expected.is_null()) {
        contender.result.extra["expected"] = std::move(expected);
      }
      session.at(what_of(contender.result));
      check(contender, *vectors);
      session.update(contender.row, contender.result);
    }
  }

  // Of a run that comes to no end: "allreduce, sum by mpi ring, 1048576 bytes of f32".
  std::string what_of(const harness::Result& result) const {
    const json& point = result.point;
    std::string text(allreduce::name(schedules_.collective()));
    if (!point["op"].is_null()) text.append(", ").append(point["op"].get<std::string>());
    return text.append(" by ")
        .append(point["engine"].get<std::string>())
        .append(" ")
        .append(bench::Contenders::name_of(result))
        .append(", ")
        .append(point["bytes"].dump())
        .append(" bytes of ")
        .append(point["dtype"].get<std::string>());
  }

  // All contenders in rounds, and among them what bounds them all, at the same footprint.
  void time(std::vector<Contender>& contenders, allreduce::Vectors& vectors, harness::Devices& devices,
            bench::Session& session) {
    std::vector<harness::Trial> trials;
    for (Contender& contender : contenders) {
      trials.push_back({[&](int runs) { return time(contender, runs); },
                        [&] {
                          session.at(what_of(contender.result));
                          vectors.refill();
                        }});
    }
    std::optional<bench::Yardstick> yardstick;
    const bool has_work = world_.size() == 1 && is_allreduce() && vectors.bytes() > 0 &&
                          (devices.size() > 1 || !vectors.buffers().input.empty());
    if (has_work && bench::Yardstick::fits(devices)) {
      yardstick.emplace(devices, vectors.inputs(), vectors.buffers().data, vectors.bytes());
      trials.push_back({[&](int runs) { return yardstick->time(runs); }});
    }
    const auto measured = harness::measure(trials, settings_, [&](std::size_t index, const harness::Measurement& now) {
      if (index == contenders.size()) return;
      record(contenders[index], now);
      session.update(contenders[index].row, contenders[index].result);
    });
    if (!yardstick) return;
    for (Contender& contender : contenders) {
      contender.result.metrics["bound_seconds"] = measured.back().seconds;
      contender.result.metrics["bound_kind"] = "memory";
      contender.result.metrics["bound_efficiency"] =
          measured.back().seconds / contender.result.metrics["seconds"].get<double>();
    }
  }

  // Seconds of one run by its slowest rank; the mean over the ranks is kept beside.
  double time(Contender& contender, int runs) {
    const double own = contender.prepared.program->time(runs);
    if (world_.size() == 1) return own;
    const std::vector<double> all = world_.gather(own);
    contender.means.push_back(std::accumulate(all.begin(), all.end(), 0.0) / world_.size());
    return *std::max_element(all.begin(), all.end());
  }

  // Untimed runs on fresh data, compared at every element. Once wrong, a point stays wrong.
  void check(Contender& contender, allreduce::Vectors& vectors) {
    harness::Result& result = contender.result;
    if (!options_.on("check") || result.check == harness::Check::failed) return;
    result.check = harness::Check::exact;
    if (const auto fault = allreduce::check(*contender.prepared.program, vectors)) {
      result.check = harness::Check::failed;
      result.status = harness::Status::failed;
      result.wrong = fault->wrong;
      result.reason = fault->reason;
    }
  }

  void record(Contender& contender, const harness::Measurement& measured) const {
    harness::Result& result = contender.result;
    bench::record_samples(result, measured);
    result.metrics = harness::bandwidths(result.point["bytes"], measured.seconds,
                                         allreduce::busbw_factor(schedules_.collective(), result.point["ranks"]));
    result.metrics["seconds"] = measured.seconds;
    result.metrics["mean_over_ranks"] = nullptr;
    if (!contender.means.empty()) {  // those of the warm-up stand before those of the samples
      result.metrics["mean_over_ranks"] = harness::median(std::span(contender.means).last(measured.samples.size()));
    }
    result.metrics["low"] = bench::low_of(measured);
    result.metrics["high"] = bench::high_of(measured);
    result.metrics["busbw_is_link_speed"] = contender.prepared.busbw_is_link_speed;
    result.metrics["bound_seconds"] = nullptr;
    result.metrics["bound_kind"] = nullptr;
    result.metrics["bound_efficiency"] = nullptr;
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    const json& point = result.point;
    const std::size_t bytes = point["bytes"];
    const auto dtype = harness::parse_dtype(point["dtype"].get<std::string>());
    std::vector<std::string> cells = {std::to_string(bytes),
                                      std::to_string(bytes / harness::size_of(*dtype)),
                                      point["dtype"],
                                      bench::word_of(point["op"]),
                                      point["engine"],
                                      bench::Contenders::name_of(result),
                                      point["launch"],
                                      point["placement"],
                                      point["device"],
                                      harness::format_seconds(metric("seconds")),
                                      harness::format_bandwidth(metric("algbw")),
                                      harness::format_bandwidth(metric("busbw")),
                                      harness::format_percent(metric("bound_efficiency")),
                                      bench::wrong_of(result)};
    if (expectations_.known()) {
      const json expected = result.extra.value("expected", json(nullptr));
      cells.push_back(harness::format_seconds(expected.is_null() ? NAN : expected["seconds"].get<double>()));
      cells.push_back(bench::verdict_of(expected));
    }
    columns_.print_row(std::cout, cells,
                       {.bar = metric("bound_efficiency"), .wrong = result.status != harness::Status::ok});
  }

  const harness::Options& options_;
  harness::World& world_;
  harness::MeasureSettings settings_;
  bench::Schedules schedules_;
  bench::Contenders contenders_;
  std::optional<bench::Tuning> tuning_;
  const std::vector<std::string> devices_;  // points of --device: finding out opens them
  bench::Expectations expectations_;
  harness::Table columns_;
  std::vector<json> blocks_, trials_;
  std::optional<bench::Simulated> simulated_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(
      "bench_allreduce", "Times all-reduce alone, or another collective: every algorithm on the same vectors.", table(),
      argc, argv, bench::takes_processes,
      [](const harness::Options& options, harness::World& world) { return Bench(options, world).run(); });
}
