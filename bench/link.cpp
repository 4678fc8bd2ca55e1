// SPDX-License-Identifier: Apache-2.0
// bench_link: what connects every ordered pair of devices. The copy is issued on the stream of the device that
// receives, so a CPU device pulls. A pair is timed only after a pattern arrived on it unharmed: a broken link can be
// fast, with every call reporting success.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "bench/main.hpp"
#include "harness/device/device.hpp"
#include "harness/measure.hpp"
#include "harness/options.hpp"
#include "harness/progress.hpp"
#include "harness/report.hpp"
#include "harness/statistics.hpp"
#include "harness/table.hpp"
#include "harness/text.hpp"

namespace {

using nlohmann::json;

// So many that launching them, a few hundred nanoseconds, adds little to the mean.
constexpr int copies_for_latency = 4096;

std::vector<harness::Option> table() {
  auto options = harness::common_options();
  options.push_back({.name = "bytes",
                     .kind = harness::Kind::bytes,
                     .default_text = "4,64M",
                     .help = "two sizes: of the copies for the latency, and of those for the bandwidth"});
  return options;
}

struct Pair {
  int from, to;
};

// A device with itself has one pair, its own memory's; several have every ordered pair of two.
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
  Links(harness::Devices& devices, std::size_t bytes, std::uint64_t seed)
      : devices_(devices), seed_(seed), host_(bytes) {
    for (int device = 0; device < devices.size(); ++device) {
      sources_.push_back(devices[device].allocate(bytes));
      targets_.push_back(devices[device].allocate(bytes));
      streams_.push_back(devices[device].make_stream());
    }
  }

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

  // Seconds of one copy, as the mean over many that are recorded first. Issued one by one they would measure now the
  // host that issues them, now the device that finds a heap of them.
  double latency(Pair pair, std::size_t bytes) {
    harness::Stream& stream = *streams_[pair.to];
    const auto copies = devices_.record(stream, [&] {
      for (int i = 0; i < copies_for_latency; ++i) pull(pair, bytes);
    });
    const auto begin = stream.record(harness::Timing::on);
    copies->launch();
    const auto end = stream.record(harness::Timing::on);
    stream.sync();
    return devices_.seconds_between(begin, end) / copies_for_latency;
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
                  {.title = "from", .left = true, .width = 14},
                  {.title = "to", .left = true, .width = 14},
                  {.title = "latency", .width = 10},
                  {.title = "one way", .width = 11},
                  {.title = "both ways", .width = 11},
                  {.title = "wrong", .width = 7}}) {
    const auto sizes = options.bytes("bytes");
    if (sizes.size() != 2 || sizes[0] == 0 || sizes[1] == 0) {
      throw harness::bad_value("bytes", options.text("bytes"),
                               "two sizes above 0 belong here, of the latency and of the bandwidth, as in 4,64M");
    }
    latency_bytes_ = sizes[0];
    bytes_ = sizes[1];
    points_ = bench::device_points(options, "cpu:2");
  }

  int run() {
    if (options_.on("list")) {
      for (const auto& point : points_) {
        const auto devices = bench::open_devices(options_, point);
        for (const Pair pair : pairs_of(devices->size())) std::cout << describe(*devices, pair).point.dump() << '\n';
      }
      return 0;
    }
    harness::Report report = bench::make_report(options_);
    harness::Progress progress(options_.on("quiet"), static_cast<double>(points_.size()));
    columns_.print_header(std::cout);
    for (std::size_t index = 0; index < points_.size(); ++index) {
      progress.show(static_cast<double>(index), "link " + points_[index]);
      const auto devices = bench::open_devices(options_, points_[index]);
      run_point(*devices, report);
    }
    progress.finish();
    std::cout << "# latency: of a copy of " << harness::format_bytes(latency_bytes_)
              << " in a row of recorded ones, without the hand-over between streams; bandwidths of "
              << harness::format_bytes(bytes_) << "; both ways: the sum of two copies at once\n";
    return bench::finish(report, "pairs");
  }

 private:
  harness::Result describe(const harness::Devices& devices, Pair pair) const {
    harness::Result result;
    result.bench = "link";
    result.oversubscribed = devices.oversubscribed();
    result.point = {{"from", devices[pair.from].name()},
                    {"to", devices[pair.to].name()},
                    {"bytes", bytes_},
                    {"latency_bytes", latency_bytes_},
                    {"threads", devices.threads()},
                    {"engine", "streams"},
                    {"topology", nullptr}};
    result.command = {"bench_link", "--device=" + devices.text(), "--threads=" + std::to_string(devices.threads()),
                      "--bytes=" + std::to_string(latency_bytes_) + "," + std::to_string(bytes_),
                      "--seed=" + std::to_string(seed_)};
    return result;
  }

  void run_point(harness::Devices& devices, harness::Report& report) {
    const auto pairs = pairs_of(devices.size());
    const std::size_t first = report.results().size();
    for (const Pair pair : pairs) report.add(describe(devices, pair));
    std::unique_ptr<Links> links;
    try {
      links = std::make_unique<Links>(devices, std::max(bytes_, latency_bytes_), seed_);
      links->fill_sources();
      measure(pairs, *links, report, first);
    } catch (const harness::TimedOut& error) {
      give_up(report, first, harness::Status::timed_out, error.what());
      std::cout.flush();
      std::cerr << "bench_link: " << error.what() << std::endl;
      std::_Exit(1);  // here, where `links` still stands: its streams may never end
    } catch (const harness::Error& error) {
      give_up(report, first, links ? harness::Status::failed : harness::Status::skipped, error.what());
    } catch (const std::bad_alloc&) {
      give_up(report, first, harness::Status::skipped, "the host has no memory for copies of this size");
    }
    for (std::size_t row = first; row < report.results().size(); ++row) print(devices.text(), report.results()[row]);
    std::cout.flush();
  }

  void measure(const std::vector<Pair>& pairs, Links& links, harness::Report& report, std::size_t first) const {
    check(pairs, links, report, first);
    enum Quantity { latency, one_way, both_ways };
    struct Row {
      std::size_t result;
      Quantity quantity;
    };
    std::vector<harness::Trial> trials;
    std::vector<Row> rows;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Pair pair = pairs[i];
      if (report.results()[first + i].status != harness::Status::ok) continue;
      trials.push_back({[&links, pair, this](int) { return links.latency(pair, latency_bytes_); }});
      rows.push_back({first + i, latency});
      trials.push_back({[&links, pair, this](int runs) { return links.one_way(pair, bytes_, runs); }});
      rows.push_back({first + i, one_way});
      if (pair.from == pair.to) continue;
      trials.push_back({[&links, pair, this](int runs) { return links.both_ways(pair, bytes_, runs); }});
      rows.push_back({first + i, both_ways});
    }
    harness::measure(
        trials, bench::measure_settings(options_, 3), [&](std::size_t index, const harness::Measurement& measured) {
          harness::Result result = report.results()[rows[index].result];
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
          report.update(rows[index].result, std::move(result));
          report.write();
        });
    check(pairs, links, report, first);
  }

  // Once wrong, a pair stays wrong.
  static void check(const std::vector<Pair>& pairs, Links& links, harness::Report& report, std::size_t first) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      harness::Result result = report.results()[first + i];
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
      result.metrics["peer_access"] = nullptr;
      if (result.point["from"] == result.point["to"]) result.metrics["bidirectional_bandwidth"] = nullptr;
      report.update(first + i, std::move(result));
    }
    report.write();
  }

  static void give_up(harness::Report& report, std::size_t first, harness::Status status, const std::string& reason) {
    for (std::size_t row = first; row < report.results().size(); ++row) {
      harness::Result result = report.results()[row];
      if (result.status != harness::Status::ok) continue;
      result.status = status;
      result.reason = reason;
      report.update(row, std::move(result));
    }
    report.write();
  }

  void print(const std::string& device, const harness::Result& result) const {
    const auto metric = [&](const char* name) { return bench::metric_of(result, name); };
    columns_.print_row(
        std::cout,
        {device, result.point["from"], result.point["to"], harness::format_seconds(metric("latency_seconds")),
         harness::format_bandwidth(metric("bandwidth")), harness::format_bandwidth(metric("bidirectional_bandwidth")),
         result.status == harness::Status::ok ? "0"
         : result.wrong                       ? std::to_string(result.wrong->count)
                                              : harness::name_of(result.status)});
    if (result.status != harness::Status::ok) std::cerr << "bench_link: " << result.reason << '\n';
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
