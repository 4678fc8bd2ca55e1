// SPDX-License-Identifier: Apache-2.0
// bench_allreduce: all-reduce alone, or another collective. Contenders that differ only in algorithm and launch are
// checked, then timed in interleaved rounds on the same vectors.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <map>

#include "allreduce/algorithms.hpp"
#include "allreduce/check.hpp"
#include "allreduce/engine.hpp"
#include "allreduce/engines/nccl.hpp"
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
#include "harness/sweep.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using harness::Kind;
using nlohmann::json;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  const std::vector<harness::Option> own = {
      {.name = "engine",
       .kind = Kind::names,
       .default_text = "streams",
       .help = "what runs it: our schedules on streams, NVIDIA's NCCL, or a simulation on a described machine",
       .allowed = {"streams", "nccl", "simulated"}},
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
      {.name = "launch",
       .kind = Kind::names,
       .default_text = "eager",
       .help = "issued op by op, or recorded once",
       .allowed = {"eager", "graph"}},
      {.name = "nccl-algo",
       .kind = Kind::names,
       .default_text = "auto",
       .help = "what NCCL does, each a row of its own; auto is its own choice",
       .allowed = {"auto", "ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"}},
      {.name = "direction",
       .kind = Kind::names,
       .default_text = "pull",
       .help = "who carries a copy between ranks: the one that receives it, or the one that sends it",
       .allowed = {"pull", "push"}},
      {.name = "fused",
       .kind = Kind::names,
       .default_text = "off",
       .help = "whether a rank reduces straight from its peers' memory, without a copy in between",
       .allowed = {"on", "off"}},
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
  for (const auto& more : {bench::schedule_options(), bench::tuning_options(), own, bench::simulation_options()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

// One contender of a block: a row of the report, and the program behind it.
struct Contender {
  std::size_t row;
  harness::Result result;
  std::unique_ptr<allreduce::Program> program = nullptr;
  bool busbw_is_link_speed = true;
};

std::vector<harness::Column> columns(bool chooses, bool expects) {
  std::vector<harness::Column> all = {{.title = "bytes", .width = 10},
                                      {.title = "count", .width = 10},
                                      {.title = "type", .width = 5},
                                      {.title = "redop", .width = 5},
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
std::vector<std::string> measured_devices(const harness::Options& options) {
  if (options.names("engine") == std::vector<std::string>{"simulated"}) return {};
  return bench::device_points(options, harness::default_point());
}

class Bench {
 public:
  Bench(const harness::Options& options)
      : options_(options),
        settings_(bench::measure_settings(options)),
        schedules_(options),
        tuning_(bench::make_tuning(options, schedules_)),
        expectations_(options, schedules_, measured_devices(options)),
        columns_(columns(schedules_.chooses(), expectations_.known()), harness::screen_of(STDOUT_FILENO)) {
    std::vector<std::string> engines = options.names("engine");
    if (std::erase(engines, "simulated") > 0) {
      if (engines.empty() && options.given("device")) {
        throw harness::bad_value("device", options.text("device"),
                                 "the simulated engine has the devices of --topology");
      }
      simulated_.emplace(options, schedules_);
    } else {
      for (const char* option : {"software", "rank-order"}) {
        if (options.given(option)) {
          throw harness::bad_value(option, options.text(option), "only --engine=simulated takes it");
        }
      }
      if (options.given("without") && !options.given("topology")) {
        throw harness::bad_value("without", options.text("without"), "it takes away from --topology");
      }
      if (options.given("topology") && !expectations_.known()) {
        throw harness::bad_value("topology", options.text("topology"), "measured rows are held against one of them");
      }
    }
    if (engines.empty()) return;
    blocks_ = harness::points({{"device", bench::values(bench::device_points(options, harness::default_point()))},
                               {"dtype", bench::values(options.names("dtype"))},
                               {"op", schedules_.ops()},
                               {"placement", bench::values(options.names("placement"))},
                               {"pieces", bench::values(options.integers("pieces"))},
                               {"bytes", bench::values(options.bytes("bytes"))}});
    if (!schedules_.fits_any_ranks() || (options.given("topology") && !simulated_)) {
      std::map<std::string, int> ranks;  // of a device; finding out opens it
      for (const json& block : blocks_) {
        const auto [known, fresh] = ranks.try_emplace(block["device"].get<std::string>());
        if (fresh) known->second = bench::ranks_of(options, known->first);
        schedules_.require_fitting(shape_of(block, known->second));
        if (!simulated_) expectations_.require_ranks(known->first, known->second);
      }
    }
    for (const std::string& engine : engines) {
      const auto trials = engine == "nccl" ? nccl_trials() : schedule_trials(engine);
      trials_.insert(trials_.end(), trials.begin(), trials.end());
    }
    for (const json& block : blocks_) {
      if (schedules_.chooses() && !expectations_.known()) require_tuned(block);
    }
    bench::name_what_is_the_same(
        columns_, blocks_, {{"type", "dtype"}, {"redop", "op"}, {"placement", "placement"}, {"device", "device"}});
    bench::name_what_is_the_same(columns_, trials_, {{"launch", "launch"}});
    if (engines == std::vector<std::string>{"streams"} && !schedules_.chooses()) {
      bench::name_what_is_the_same(columns_, trials_, {{"algorithm", "algorithm"}});
    }
    columns_.only("count", "bytes / size of the type");
  }

  int run() {
    if (options_.has("export")) {
      const int ranks = blocks_.empty() ? simulated_->ranks() : bench::ranks_of(options_, blocks_[0]["device"]);
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
    bench::Session session(options_, "bench_allreduce", "points",
                           blocks_.size() + (simulated_ ? simulated_->points().size() : 0),
                           [this](const harness::Result& result) {
                             result.nature == harness::Nature::simulated ? simulated_->print(result) : print(result);
                           });
    if (!blocks_.empty()) measure(session);
    if (simulated_) {
      simulated_->print_header();
      simulated_->run(session);
      simulated_->print_footer();
    }
    return session.finish();
  }

 private:
  bool is_allreduce() const { return schedules_.collective() == allreduce::Collective::allreduce; }

  // Throws UsageError where the choice of --algorithm=auto is not known of some trial.
  void require_tuned(json point) const {
    for (const json& trial : trials_) {
      point.update(trial);
      point["transport"] = options_.text("transport");
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
    const char* factor = is_allreduce() ? "2(n-1)/n" : allreduce::has_root(schedules_.collective()) ? "1" : "(n-1)/n";
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
    if (!is_allreduce()) return;
    std::cout << "# the bound: as many threads, each reading and writing its part of all vectors once, with no order "
                 "between them\n";
  }

  std::vector<json> schedule_trials(const std::string& engine) const {
    return harness::points({{"engine", {engine}},
                            {"algorithm", bench::values(schedules_.names())},
                            {"launch", bench::values(options_.names("launch"))},
                            {"direction", bench::values(options_.names("direction"))},
                            {"fused", bench::values(options_.names("fused"))}});
  }

  std::vector<json> nccl_trials() const {
    std::vector<json> trials;
    for (const std::string& algo : options_.names("nccl-algo")) {
      for (const std::string& launch : options_.names("launch")) {
        trials.push_back({{"engine", "nccl"},
                          {"algorithm", nullptr},
                          {"launch", launch},
                          {"direction", nullptr},
                          {"fused", nullptr},
                          {"nccl", {{"algo", algo}, {"version", allreduce::nccl_version()}}}});
      }
    }
    return trials;
  }

  std::vector<std::string> command_for(const json& point) const {
    std::vector<std::string> command = {"bench_allreduce"};
    for (const std::string axis : {"engine", "device", "transport", "algorithm", "bytes", "dtype", "op", "placement",
                                   "launch", "direction", "fused", "pieces"}) {
      if (axis == "algorithm" && !schedules_.file().empty()) continue;
      const json& value = point[axis];
      if (value.is_null()) continue;
      command.push_back(std::string("--").append(axis).append("=").append(value.is_string() ? value.get<std::string>()
                                                                                            : value.dump()));
    }
    if (point.contains("nccl")) command.push_back("--nccl-algo=" + point["nccl"]["algo"].get<std::string>());
    if (point["algorithm"] == "auto" && options_.given("tuning")) {
      command.push_back("--tuning=" + options_.text("tuning"));
    }
    if (options_.given("topology") && expectations_.known()) {
      command.push_back("--topology=" + options_.text("topology"));
      if (options_.given("without")) command.push_back("--without=" + options_.text("without"));
    }
    command.push_back("--seed=" + std::to_string(options_.integer("seed")));
    return command;
  }

  static allreduce::Shape shape_of(const json& block, int ranks) {
    return {ranks, block["pieces"],
            block["placement"] == "in_place" ? allreduce::Placement::in_place : allreduce::Placement::out_of_place};
  }

  allreduce::NcclCall nccl_call(const json& point) const {
    return {schedules_.collective(), schedules_.root(), point["nccl"]["algo"]};
  }

  // Why these devices cannot run a point of so many elements.
  std::optional<std::string> refuses(const json& point, const harness::Devices& devices, std::size_t count) const {
    if (point["engine"] == "nccl") {
      if (const auto why = allreduce::nccl_refuses(devices, nccl_call(point), count)) return why;
      const bool rounds = point["op"] == "avg" && !std::has_single_bit(static_cast<unsigned>(devices.size()));
      if (!rounds || !options_.on("check")) return std::nullopt;
      return "NCCL multiplies by 1/n before it adds, so an average over " + std::to_string(devices.size()) +
             " ranks is rounded and has no exact answer; take --check=off";
    }
    if (point["fused"] != "on") return std::nullopt;
    for (int reader = 0; reader < devices.size(); ++reader) {
      for (int owner = 0; owner < devices.size(); ++owner) {
        if (reader == owner || devices.route(reader, owner) != harness::Route::staged) continue;
        return devices[reader].name() + " cannot read the memory of " + devices[owner].name() +
               " directly, which --fused=on needs";
      }
    }
    return std::nullopt;
  }

  void run_block(const json& block, harness::Devices& devices, bench::Session& session) {
    const harness::Dtype dtype = *harness::parse_dtype(block["dtype"].get<std::string>());
    const harness::Op op =
        block["op"].is_null() ? harness::Op::sum : *harness::parse_op(block["op"].get<std::string>());
    const allreduce::Shape shape = shape_of(block, devices.size());
    const std::size_t count = block["bytes"].get<std::size_t>() / harness::size_of(dtype);
    const allreduce::Pattern pattern{
        dtype, op, devices.size(), settings_.seed, schedules_.collective(), schedules_.root()};

    std::vector<Contender> contenders;
    for (const json& trial : trials_) {
      harness::Result result = bench::result_on(devices);
      result.point = block;
      result.point.update(trial);
      result.point["bytes"] = count * harness::size_of(dtype);
      result.point["ranks"] = devices.size();
      result.point["threads"] = devices.threads();
      result.point["transport"] = options_.text("transport");
      result.point["topology"] = nullptr;
      if (result.point["algorithm"] == "auto") result.extra["chosen"] = choose(result.point, shape);
      result.command = command_for(result.point);
      schedules_.describe(result, shape);
      contenders.push_back({session.add(result), std::move(result)});
    }
    allreduce::Vectors vectors(devices, pattern, count, shape.placement);
    for (Contender& contender : contenders) {
      const json& point = contender.result.point;
      if (const auto why = refuses(point, devices, count)) {
        session.give_up(contender.row, {harness::Status::refused, *why});
        continue;
      }
      const allreduce::Problem problem{
          &devices,
          count,
          dtype,
          op,
          point["launch"] == "graph" ? allreduce::Launch::graph : allreduce::Launch::eager,
          {vectors.buffers()},
          point["direction"] == "push" ? allreduce::Direction::push : allreduce::Direction::pull,
          point["fused"] == "on"};
      if (point["engine"] == "nccl") {
        contender.busbw_is_link_speed = point["nccl"]["algo"] == "ring";
        contender.program = allreduce::prepare_nccl(problem, nccl_call(point));
      } else {
        const std::string name = bench::algorithm_of(contender.result);
        contender.busbw_is_link_speed = schedules_.busbw_is_link_speed(name);
        contender.program = allreduce::prepare(schedules_.build(name, shape), problem);
      }
      check(contender, vectors);
      session.update(contender.row, contender.result);
    }
    std::erase_if(contenders, [](const Contender& contender) { return contender.program == nullptr; });

    if (options_.text("mode") == "check") return;
    time(contenders, vectors, devices, session);
    for (Contender& contender : contenders) {
      if (auto expected = expectations_.of(contender.result, devices, shape); !expected.is_null()) {
        contender.result.extra["expected"] = std::move(expected);
      }
      check(contender, vectors);
      session.update(contender.row, contender.result);
    }
  }

  // All contenders in rounds, and among them what bounds them all, at the same footprint.
  void time(std::vector<Contender>& contenders, allreduce::Vectors& vectors, harness::Devices& devices,
            bench::Session& session) {
    std::vector<harness::Trial> trials;
    for (const Contender& contender : contenders) {
      trials.push_back({[&](int runs) { return contender.program->time(runs); }, [&] { vectors.refill(); }});
    }
    std::optional<bench::Yardstick> yardstick;
    const bool has_work =
        is_allreduce() && vectors.bytes() > 0 && (devices.size() > 1 || !vectors.buffers().input.empty());
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

  // Untimed runs on fresh data, compared at every element. Once wrong, a point stays wrong.
  void check(Contender& contender, allreduce::Vectors& vectors) {
    harness::Result& result = contender.result;
    if (!options_.on("check") || result.check == harness::Check::failed) return;
    result.check = harness::Check::exact;
    if (const auto fault = allreduce::check(*contender.program, vectors)) {
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
    result.metrics["low"] = bench::low_of(measured);
    result.metrics["high"] = bench::high_of(measured);
    result.metrics["busbw_is_link_speed"] = contender.busbw_is_link_speed;
    result.metrics["bound_seconds"] = nullptr;
    result.metrics["bound_kind"] = nullptr;
    result.metrics["bound_efficiency"] = nullptr;
  }

  static std::string contender_of(const harness::Result& result) {
    const json& point = result.point;
    if (point.contains("nccl")) return "nccl " + point["nccl"]["algo"].get<std::string>();
    std::string name = bench::algorithm_of(result);
    if (point["algorithm"] == "auto") name.insert(0, "auto ");
    if (point["direction"] == "push") name.append(" push");
    if (point["fused"] == "on") name.append(" fused");
    return name;
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
                                      contender_of(result),
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
  harness::MeasureSettings settings_;
  bench::Schedules schedules_;
  std::optional<bench::Tuning> tuning_;
  bench::Expectations expectations_;
  harness::Table columns_;
  std::vector<json> blocks_, trials_;
  std::optional<bench::Simulated> simulated_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main("bench_allreduce",
                         "Times all-reduce alone, or another collective: every algorithm on the same vectors.", table(),
                         argc, argv, [](const harness::Options& options) { return Bench(options).run(); });
}
