// SPDX-License-Identifier: Apache-2.0
// bench_link: what connects every ordered pair of devices. The copy is issued on the stream of the device that
// receives, so a CPU device pulls. A pair is timed only after a pattern arrived on it unharmed: a broken link can be
// fast, with every call reporting success.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/main.hpp"
#include "bench/session.hpp"
#include "harness/device/device.hpp"
#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/report.hpp"
#include "harness/statistics.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using nlohmann::json;

// So many that launching them, some microseconds, adds little to the mean.
constexpr int round_trips_for_latency = 500;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  options.push_back({.name = "bytes",
                     .kind = harness::Kind::bytes,
                     .default_text = "4,64M",
                     .help = "two sizes: of the copies for the latency, and of those for the bandwidth"});
  options.push_back({.name = "write-topology",
                     .kind = harness::Kind::text,
                     .help = "write what was measured as a topology, for --topology=FILE of the simulated engine"});
  return options;
}

struct Pair {
  int from, to;
};

// One device has a pair with itself, which is its own memory; several have every ordered pair of two.
std::vector<Pair> pairs_of(int devices) {
  if (devices == 1) return {{0, 0}};
  std::vector<Pair> pairs;
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      if (from != to) pairs.push_back({from, to});
    }
  }
  return pairs;
}

// What a source holds at a byte: another value for another device, and no short period (Knuth's multiplicative hash).
std::byte pattern(int device, std::size_t index, std::uint64_t seed) {
  const std::uint64_t where = index + (seed << 40U);
  return static_cast<std::byte>((where * 0x9E3779B97F4A7C15U + (device + 1) * 0xC2B2AE3D27D4EB4FU) >> 56U);
}

// The devices of a point with a source, a target and a stream on each.
class Links {
 public:
  Links(harness::Devices& devices, std::size_t bytes, std::uint64_t seed) : devices_(devices), seed_(seed) {
    harness::require_host_memory(bytes);
    host_.resize(bytes);
    for (int device = 0; device < devices.size(); ++device) {
      sources_.push_back(devices[device].allocate(bytes));
      targets_.push_back(devices[device].allocate(bytes));
      streams_.push_back(devices[device].make_stream());
    }
  }

  harness::Route route(Pair pair) const { return devices_.route(pair.to, pair.from); }

  void fill_sources() {
    for (int device = 0; device < devices_.size(); ++device) {
      for (std::size_t i = 0; i < host_.size(); ++i) host_[i] = pattern(device, i, seed_);
      streams_[device]->copy(host_.data(), sources_[device].data(), host_.size());
      streams_[device]->sync();
    }
  }

  // Copies the source to a target that differs in every byte, and compares what arrived.
  std::optional<harness::Wrong> check(Pair pair) {
    harness::Stream& stream = *streams_[pair.to];
    std::byte* target = targets_[pair.to].data();
    for (std::size_t i = 0; i < host_.size(); ++i) host_[i] = ~pattern(pair.from, i, seed_);
    stream.copy(host_.data(), target, host_.size());
    pull(pair, host_.size());
    stream.copy(target, host_.data(), host_.size());
    stream.sync();
    std::optional<harness::Wrong> wrong;
    for (std::size_t i = 0; i < host_.size(); ++i) {
      const std::byte expected = pattern(pair.from, i, seed_);
      if (host_[i] == expected) continue;
      if (!wrong) {
        wrong = harness::Wrong{0, static_cast<std::int64_t>(i), static_cast<double>(expected),
                               static_cast<double>(host_[i]), pair.to};
      }
      ++wrong->count;
    }
    return wrong;
  }

  // Seconds of one copy, as the mean over `copies` in a row.
  double one_way(Pair pair, std::size_t bytes, int copies) {
    harness::Stream& stream = *streams_[pair.to];
    const auto begin = stream.record(harness::Timing::on);
    for (int i = 0; i < copies; ++i) pull(pair, bytes);
    const auto end = stream.record(harness::Timing::on);
    stream.sync();
    return devices_.seconds_between(begin, end) / copies;
  }

  // Half the seconds of a round trip, as the mean over many that are recorded first and run at one launch: each end
  // copies when it has seen the other's copy, so that the hand-over between the devices is in it.
  double latency(Pair pair, std::size_t bytes) {
    harness::Stream& here = *streams_[pair.to];
    harness::Stream& there = *streams_[pair.from];
    const auto round_trips = devices_.record(here, [&] {
      for (int i = 0; i < round_trips_for_latency; ++i) {
        there.wait(here.record());
        pull({pair.to, pair.from}, bytes);
        here.wait(there.record());
        pull(pair, bytes);
      }
    });
    const auto begin = here.record(harness::Timing::on);
    round_trips->launch();
    const auto end = here.record(harness::Timing::on);
    here.sync();
    return devices_.seconds_between(begin, end) / (2 * round_trips_for_latency);
  }

  // Seconds in which one copy each way happens, both at once.
  double both_ways(Pair pair, std::size_t bytes, int copies) {
    harness::Stream& here = *streams_[pair.to];
    harness::Stream& there = *streams_[pair.from];
    const auto begin = here.record(harness::Timing::on);
    there.wait(begin);
    for (int i = 0; i < copies; ++i) {
      pull(pair, bytes);
      pull({pair.to, pair.from}, bytes);
    }
    here.wait(there.record());
    const auto end = here.record(harness::Timing::on);
    here.sync();
    there.sync();
    return devices_.seconds_between(begin, end) / copies;
  }

 private:
  void pull(Pair pair, std::size_t bytes) {
    streams_[pair.to]->copy(sources_[pair.from].data(), targets_[pair.to].data(), bytes);
  }

  harness::Devices& devices_;
  std::uint64_t seed_;
  std::vector<std::byte> host_;
  std::vector<harness::Buffer> sources_, targets_;
  std::vector<std::unique_ptr<harness::Stream>> streams_;
};

class Bench {
 public:
  explicit Bench(const harness::Options& options)
      : options_(options),
        seed_(static_cast<std::uint64_t>(options.integer("seed"))),
        columns_({{.title = "device", .left = true, .width = 8},
                  {.title = "from", .left = true, .width = 8},
                  {.title = "to", .left = true, .width = 8},
                  {.title = "latency", .width = 10},
                  {.title = "one way", .width = 11},
                  {.title = "both ways", .width = 11},
                  {.title = "wrong", .width = 7}},
                 harness::screen_of(STDOUT_FILENO)) {
    const auto sizes = options.bytes("bytes");
    if (sizes.size() != 2 || sizes[0] == 0 || sizes[1] == 0) {
      throw harness::bad_value("bytes", options.text("bytes"),
                               "two sizes above 0 belong here, of the latency and of the bandwidth, as in 4,64M");
    }
    latency_bytes_ = sizes[0];
    bytes_ = sizes[1];
    if (options.has("write-topology")) check_topology_file();
    points_ = bench::device_points(options, harness::default_point());
    if (options.has("write-topology") && points_.size() != 1) {
      throw harness::bad_value("write-topology", options.text("write-topology"), "it describes one point of --device");
    }
  }

  int run() {
    if (options_.on("list")) {
      for (const auto& point : points_) {
        for (const Pair pair : pairs_of(bench::ranks_of(options_, point))) {
          std::cout << json{{"device", point}, {"from", pair.from}, {"to", pair.to}}.dump() << '\n';
        }
      }
      return 0;
    }
    bench::Session session(options_, "bench_link", "pairs", points_.size(),
                           [this](const harness::Result& result) { print(result); });
    columns_.print_header(std::cout);
    for (const auto& point : points_) {
      const auto devices = session.open(point);
      session.point("link " + point, [&] { run_point(*devices, session); });
    }
    std::cout << "# latency: half a round trip of " << harness::format_bytes(latency_bytes_)
              << ", hand-over between the devices included; bandwidths of " << harness::format_bytes(bytes_)
              << "; both ways: the sum of two copies at once\n";
    const int status = session.finish();
    if (status == 0 && options_.has("write-topology")) write_topology(session.results());
    return status;
  }

 private:
  void check_topology_file() const {
    const std::string file = options_.text("write-topology");
    if (!std::ofstream(file, std::ios::app)) {
      throw harness::bad_value("write-topology", file, "that file cannot be written");
    }
  }

  // A link for each ordered pair, as fast as it was; both directions together as they were at once. Latencies were
  // measured with the hand-over in them, which the file says.
  void write_topology(const std::vector<harness::Result>& rows) const {
    json classes = json::object();
    json links = json::array();
    double fastest = 0;
    const auto number = [](const harness::Result& row, const char* name) { return row.metrics.at(name).get<double>(); };
    const auto pairs = pairs_of(bench::ranks_of(options_, points_[0]));
    for (std::size_t at = 0; at < pairs.size(); ++at) {
      fastest = std::max(fastest, number(rows[at], "bandwidth"));
      if (pairs[at].from >= pairs[at].to) continue;
      const auto back = std::ranges::find_if(
          pairs, [&](const Pair& pair) { return pair.from == pairs[at].to && pair.to == pairs[at].from; });
      const harness::Result& there = rows[at];
      const harness::Result& here = rows[back - pairs.begin()];
      const std::string from = "gpu" + std::to_string(pairs[at].from);
      const std::string to = "gpu" + std::to_string(pairs[at].to);
      std::string name = "measured-";
      name.append(from).append("-").append(to);
      // The way back is this class too, so many times as wide.
      const double wide = number(here, "bandwidth") / number(there, "bandwidth");
      classes[name] = {{"kind", "nvlink"},
                       {"rate", number(there, "bandwidth")},
                       {"copy_engine_both_ways", number(there, "bidirectional_bandwidth") / wide},
                       {"latency", (number(there, "latency_seconds") + number(here, "latency_seconds")) / 2}};
      links.push_back({{"from", from}, {"to", to}, {"class", name}, {"one_way", true}});
      links.push_back({{"from", to}, {"to", from}, {"class", name}, {"count", wide}, {"one_way", true}});
    }
    // A copy reads and writes as much as it moves.
    classes["measured-memory"] = {{"kind", "memory"}, {"rate", 2 * fastest}};
    const json topology = {{"about", "measured by bench_link on " + points_[0]},
                           {"sources", {harness::join(options_.command(), " ")}},
                           {"measured", true},
                           {"gpus", bench::ranks_of(options_, points_[0])},
                           {"memory", "measured-memory"},
                           {"classes", classes},
                           {"links", links}};
    std::ofstream file(options_.text("write-topology"));
    file << topology.dump(1) << '\n';
    if (!file.flush()) throw harness::Error("cannot write " + options_.text("write-topology"));
  }

  harness::Result describe(const harness::Devices& devices, Pair pair) const {
    harness::Result result = bench::result_on(devices);
    result.bench = "link";
    result.point = {{"device", devices.text()},
                    {"from", devices[pair.from].name()},
                    {"to", devices[pair.to].name()},
                    {"bytes", bytes_},
                    {"latency_bytes", latency_bytes_},
                    {"threads", devices.threads()},
                    {"transport", options_.text("transport")},
                    {"engine", "streams"},
                    {"topology", nullptr}};
    result.command = {"bench_link",
                      "--device=" + devices.text(),
                      "--threads=" + std::to_string(devices.threads()),
                      "--transport=" + options_.text("transport"),
                      "--bytes=" + std::to_string(latency_bytes_) + "," + std::to_string(bytes_),
                      "--seed=" + std::to_string(seed_)};
    return result;
  }

  void run_point(harness::Devices& devices, bench::Session& session) const {
    const auto pairs = pairs_of(devices.size());
    const std::size_t first = session.results().size();
    for (const Pair pair : pairs) session.add(describe(devices, pair));
    if (session.taken_over()) return;
    Links links(devices, std::max(bytes_, latency_bytes_), seed_);
    links.fill_sources();
    measure(pairs, links, session, first);
  }

  void measure(const std::vector<Pair>& pairs, Links& links, bench::Session& session, std::size_t first) const {
    check(pairs, links, session, first);
    enum Quantity { latency, one_way, both_ways };
    struct Row {
      std::size_t result;
      Quantity quantity;
    };
    std::vector<harness::Trial> trials;
    std::vector<Row> rows;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Pair pair = pairs[i];
      if (session.results()[first + i].status != harness::Status::ok) continue;
      trials.push_back({[&links, pair, this](int runs) { return links.one_way(pair, bytes_, runs); }});
      rows.push_back({first + i, one_way});
      if (pair.from == pair.to) continue;
      trials.push_back({[&links, pair, this](int) { return links.latency(pair, latency_bytes_); }});
      rows.push_back({first + i, latency});
      trials.push_back({[&links, pair, this](int runs) { return links.both_ways(pair, bytes_, runs); }});
      rows.push_back({first + i, both_ways});
    }
    harness::measure(
        trials, bench::measure_settings(options_, 3), [&](std::size_t index, const harness::Measurement& measured) {
          harness::Result result = session.results()[rows[index].result];
          json& metrics = result.metrics;
          const json low = bench::low_of(measured);
          const json high = bench::high_of(measured);
          const double bytes = static_cast<double>(bytes_);
          switch (rows[index].quantity) {
            case latency:
              metrics.update({{"latency_seconds", measured.seconds}, {"latency_low", low}, {"latency_high", high}});
              break;
            case one_way:
              metrics.update({{"seconds", measured.seconds}, {"low", low}, {"high", high}});
              metrics["bandwidth"] = bytes / measured.seconds;
              bench::record_samples(result, measured);
              break;
            case both_ways: metrics["bidirectional_bandwidth"] = 2 * bytes / measured.seconds; break;
          }
          session.update(rows[index].result, std::move(result));
        });
    check(pairs, links, session, first);
  }

  // Once wrong, a pair stays wrong.
  static void check(const std::vector<Pair>& pairs, Links& links, bench::Session& session, std::size_t first) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      harness::Result result = session.results()[first + i];
      if (result.status != harness::Status::ok) continue;
      result.check = harness::Check::exact;
      if (const auto wrong = links.check(pairs[i])) {
        result.check = harness::Check::failed;
        result.status = harness::Status::failed;
        result.wrong = wrong;
        result.reason = std::to_string(wrong->count) + " bytes from " + result.point["from"].get<std::string>() +
                        " to " + result.point["to"].get<std::string>() + " arrived wrong, the first at " +
                        std::to_string(wrong->first_index);
      }
      result.metrics["checked"] = !result.wrong;
      const harness::Route route = links.route(pairs[i]);
      result.metrics["peer_access"] =
          route == harness::Route::shared ? json(nullptr) : json(route != harness::Route::staged);
      if (result.point["from"] == result.point["to"]) {
        result.metrics["latency_seconds"] = result.metrics["bidirectional_bandwidth"] = nullptr;
      }
      session.update(first + i, std::move(result));
    }
  }

  void print(const harness::Result& result) const {
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    columns_.print_row(
        std::cout, {result.point["device"], result.point["from"], result.point["to"],
                    harness::format_seconds(metric("latency_seconds")), harness::format_bandwidth(metric("bandwidth")),
                    harness::format_bandwidth(metric("bidirectional_bandwidth")), bench::wrong_of(result)});
  }

  const harness::Options& options_;
  std::uint64_t seed_;
  harness::Table columns_;
  std::size_t latency_bytes_ = 0, bytes_ = 0;
  std::vector<std::string> points_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main("bench_link", "Checks and times the copies between every ordered pair of devices.", table(),
                         argc, argv, [](const harness::Options& options) { return Bench(options).run(); });
}
