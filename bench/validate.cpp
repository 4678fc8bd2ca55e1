// SPDX-License-Identifier: Apache-2.0
// bench_validate: holds the simulator against all-reduce times that others measured and published. One set of constants
// serves all machines, and none of it was fitted to these rows; what they are worth on a machine that nobody looked at
// is told by leaving each machine out in turn.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <numeric>
#include <set>

#include "allreduce/published.hpp"
#include "bench/main.hpp"
#include "bench/session.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using allreduce::PublishedRow;
using Belongs = std::function<bool(const PublishedRow&)>;
using nlohmann::json;

constexpr std::size_t large = 16 << 20;
constexpr std::size_t small = 1 << 20;

struct Group {
  const char* name;
  Belongs belongs;
};

std::vector<Group> groups() {
  const auto on = [](const PublishedRow& row, std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return row.topology.starts_with(name); });
  };
  const Belongs several = [](const auto& row) { return row.topology.find('*') != std::string::npos; };
  const Belongs nvswitch = [=](const auto& row) { return !several(row) && on(row, {"dgx-a", "dgx-h", "p5."}); };
  const Belongs pcie = [=](const auto& row) {
    return on(row, {"8x1080ti", "8xrtx-pro", "8x5090", "8xa100-pcie-nvlink:3"});
  };
  return {
      {"behind NVSwitch, from 16 MiB", [=](const auto& row) { return nvswitch(row) && row.bytes >= large; }},
      {"one host, NVLinks without a switch, from 16 MiB",
       [=](const auto& row) { return !nvswitch(row) && !pcie(row) && !several(row) && row.bytes >= large; }},
      {"PCIe, all sizes", pcie},
      {"several hosts, from 16 MiB", [=](const auto& row) { return several(row) && row.bytes >= large; }},
      {"under 1 MiB, launch mode known", [](const auto& row) { return row.bytes < small && !row.launch.empty(); }},
      {"all", [](const auto&) { return true; }},
  };
}

class Bench {
 public:
  explicit Bench(const harness::Options& options) : options_(options), rows_(allreduce::published_rows()) {
    if (options.has("device")) bench::device_points(options, "");  // not used here, and still not to be nonsense
  }

  int run() {
    if (options_.on("list")) {
      for (const PublishedRow& row : rows_) {
        std::cout << json{{"id", row.id}, {"topology", row.topology}, {"bytes", row.bytes}}.dump() << '\n';
      }
      return 0;
    }
    if (options_.on("markdown")) {
      simulate();
      print_markdown();
      return 0;
    }
    const harness::Table table({{.title = "id", .left = true, .width = 4},
                                {.title = "topology", .left = true, .width = 21},
                                {.title = "bytes", .width = 9},
                                {.title = "published", .width = 9},
                                {.title = "simulated", .width = 9},
                                {.title = "ratio", .width = 6},
                                {.title = "left out", .width = 8},
                                {.title = "", .left = true}});
    bench::Session session(options_, "bench_validate", "published rows", rows_.size(),
                           [&](const harness::Result& result) { print(table, result); });
    simulate();
    table.print_header(std::cout);
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      session.point(rows_[at].id, [&] { session.add(describe(at)); });
    }
    std::cout
        << "# published: measured by others, see the source of each row; simulated: this program's; left out: the\n"
           "# ratio with two factors, on latencies and rates, fitted to all other machines\n";
    for (const Group& group : groups()) {
      std::cout << "# error " << group.name << ": " << harness::format_percent(error(group.belongs, simulated_))
                << '\n';
    }
    return session.finish();
  }

 private:
  double error(const Belongs& belongs, const std::vector<double>& said, bool doubtful = false) const {
    std::vector<double> simulated, measured;
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      if (!belongs(rows_[at]) || (rows_[at].doubtful && !doubtful)) continue;
      simulated.push_back(said[at]);
      measured.push_back(rows_[at].seconds);
    }
    return allreduce::geometric_error(simulated, measured);
  }

  int count(const Belongs& belongs) const {
    return static_cast<int>(
        std::ranges::count_if(rows_, [&](const auto& row) { return belongs(row) && !row.doubtful; }));
  }

  void simulate() {
    simulated_ = allreduce::simulate_rows(rows_, constants_);
    leave_out();
  }

  // Two factors, on all latencies and on all rates, tried from 0.7 to 1.4; those that fit the other machines best are
  // applied to the one that is left out.
  void leave_out() {
    std::vector<std::vector<double>> tried;
    for (int latency = -5; latency <= 5; ++latency) {
      for (int rate = -5; rate <= 5; ++rate) {
        tried.push_back(allreduce::simulate_rows(
            rows_, allreduce::scaled(constants_, std::exp2(latency * 0.1), std::exp2(rate * 0.1))));
      }
    }
    left_out_.resize(rows_.size());
    std::set<std::string> machines;
    for (const PublishedRow& row : rows_) machines.insert(row.machine);
    for (const std::string& machine : machines) {
      const Belongs others = [&](const auto& row) { return row.machine != machine; };
      const auto& best = *std::ranges::min_element(tried, {}, [&](const auto& said) { return error(others, said); });
      for (std::size_t at = 0; at < rows_.size(); ++at) {
        if (rows_[at].machine == machine) left_out_[at] = best[at];
      }
    }
  }

  harness::Result describe(std::size_t at) const {
    const PublishedRow& row = rows_[at];
    harness::Result result;
    result.bench = "validate";
    result.nature = harness::Nature::simulated;
    result.point = {{"topology", row.topology}, {"bytes", row.bytes}, {"software", "nccl"}, {"source", row.source}};
    result.command = {"bench_validate"};
    result.metrics = {{"measured_seconds", row.seconds},
                      {"simulated_seconds", simulated_[at]},
                      {"ratio", simulated_[at] / row.seconds},
                      {"left_out_ratio", left_out_[at] / row.seconds}};
    result.extra = {{"published",
                     {{"id", row.id},
                      {"machine", row.machine},
                      {"note", row.note},
                      {"launch", row.launch.empty() ? json(nullptr) : json(row.launch)},
                      {"doubtful", row.doubtful}}}};
    return result;
  }

  static void print(const harness::Table& table, const harness::Result& result) {
    const json& published = result.extra["published"];
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    table.print_row(
        std::cout,
        {published["id"], result.point["topology"], harness::format_bytes(result.point["bytes"].get<std::size_t>()),
         harness::format_seconds(metric("measured_seconds")), harness::format_seconds(metric("simulated_seconds")),
         harness::format_real(metric("ratio")), harness::format_real(metric("left_out_ratio")),
         published["doubtful"].get<bool>() ? "doubtful" : ""});
  }

  void print_markdown() const {
    std::cout << "| rows | number | error | with the doubtful | machine left out |\n|---|---|---|---|---|\n";
    for (const Group& group : groups()) {
      std::cout << "| " << group.name << " | " << count(group.belongs) << " | "
                << harness::format_percent(error(group.belongs, simulated_)) << " | "
                << harness::format_percent(error(group.belongs, simulated_, true)) << " | "
                << harness::format_percent(error(group.belongs, left_out_)) << " |\n";
    }
    std::vector<std::size_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::size_t at) { return rows_[at].doubtful; });
    std::ranges::sort(order, std::greater<>(),
                      [&](std::size_t at) { return std::abs(std::log(simulated_[at] / rows_[at].seconds)); });
    std::cout << "\nThe five worst rows:\n\n| row | topology | bytes | published | simulated | source |\n"
                 "|---|---|---|---|---|---|\n";
    for (std::size_t at = 0; at < 5; ++at) {
      const PublishedRow& row = rows_[order[at]];
      std::cout << "| " << row.id << " | " << row.topology << " | " << harness::format_bytes(row.bytes) << " | "
                << harness::format_seconds(row.seconds) << " | " << harness::format_seconds(simulated_[order[at]])
                << " | " << row.source << " |\n";
    }
  }

  const harness::Options& options_;
  const allreduce::Constants constants_;
  const std::vector<PublishedRow> rows_;
  std::vector<double> simulated_;
  std::vector<double> left_out_;
};

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  options.push_back({.name = "markdown", .help = "print the tables of allreduce/README.md, and no more"});
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main("bench_validate", "Holds the simulator against published all-reduce times.", table(), argc,
                         argv, [](const harness::Options& options) { return Bench(options).run(); });
}
