// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.hpp"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "allreduce/cost.hpp"
#include "allreduce/schedule_file.hpp"
#include "allreduce/topologies.hpp"
#include "allreduce/verify.hpp"
#include "bench/training/profile.hpp"
#include "bench/tuning.hpp"
#include "harness/device/device.hpp"
#include "harness/earlier.hpp"
#include "harness/error.hpp"
#include "harness/options.hpp"
#include "harness/sweep.hpp"
#include "harness/text.hpp"
#include "models/checkpoint.hpp"
#include "models/dataset.hpp"

namespace fuzz {

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << '\n';
  std::abort();
}

void refusable(const auto& read) {
  try {
    read();
  } catch (const harness::UsageError& error) {
    require(std::string(error.what()).find('\n') == std::string::npos, "a complaint is one line");
  }
}

void read_sizes(const std::string& bytes) {
  refusable([&] {
    const auto sizes = harness::parse_sizes(bytes);
    require(!sizes.empty(), "sizes are some");
  });
  refusable([&] { require(!harness::device_points(bytes).empty(), "points are some"); });
  if (const auto seconds = harness::parse_seconds(bytes)) require(*seconds >= 0, "a time is not below 0");
}

// A line a word.
void read_options(const std::string& bytes) {
  auto table = harness::common_options();
  table.push_back({.name = "bytes", .kind = harness::Kind::bytes, .default_text = "1K", .range_forms = "befi"});
  table.push_back({.name = "many", .kind = harness::Kind::integers, .minimum = -5, .maximum = 1e18});
  table.push_back({.name = "real", .kind = harness::Kind::real, .minimum = -1});
  table.push_back({.name = "size", .kind = harness::Kind::byte_count});
  table.push_back({.name = "names", .short_form = "N", .kind = harness::Kind::names, .aliases = {{"a", "b"}}});
  const auto words = harness::split(bytes, '\n');
  std::vector<const char*> argv = {"bench"};
  for (const auto& word : words) argv.push_back(word.c_str());
  refusable([&] {
    const auto options = harness::parse_options(table, static_cast<int>(argv.size()), argv.data());
    if (options.on("help")) return;
    require(options.seconds("timeout") >= 0, "a time is not below 0");
    require(!options.bytes("bytes").empty(), "sizes are some");
    for (const std::int64_t one : options.integers("many")) require(one >= -5, "a number is within its limits");
  });
}

void read_results(const std::string& bytes) {
  refusable([&] {
    const harness::Earlier earlier(bytes);
    harness::Report report("", {});
    const harness::Result row{.bench = "allreduce", .command = {"bench_allreduce"}};
    if (const auto found = earlier.find({&row, 1})) report.add((*found)[0]);
    static const harness::RunInfo here = harness::describe_run({}, 1, false);
    require(earlier.difference(here).has_value(), "no corpus was measured here");
  });
}

void read_tuning(const std::string& bytes) {
  refusable([&] { bench::parse_tuning(bytes); });
}

void read_profile(const std::string& bytes) {
  refusable([&] {
    for (const auto& profile : bench::parse_profiles(bytes, "lenet")) require(profile.batch > 0, "a batch is above 0");
  });
}

void read_schedule(const std::string& bytes) {
  refusable([&] {
    const auto schedule = allreduce::parse_schedule(bytes);
    if (allreduce::verify(schedule).proved) require(allreduce::cost(schedule).steps >= 0, "steps are counted");
  });
}

void read_topology(const std::string& bytes) {
  refusable([&] {
    static const allreduce::Constants constants;
    const auto topology = allreduce::parse_topology(bytes, "fuzz", constants);
    allreduce::Router router(topology, allreduce::Mover::copy_engine);
    for (int rank = 0; rank < topology.size() && rank < 8; ++rank) router.find_between(0, rank);
  });
}

std::vector<std::uint8_t> as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

void read_idx(const std::string& bytes) {
  refusable([&] { models::parse_idx("fuzz", as_bytes(bytes), {3, 2, 2}); });
  refusable([&] { models::parse_idx("fuzz", as_bytes(bytes), {5}); });
  refusable([&] { models::parse_idx("fuzz", models::gunzip("fuzz", as_bytes(bytes)), {5}); });
}

void read_checkpoint(const std::string& bytes) {
  refusable([&] {
    std::size_t values = 0;
    for (const auto& tensor : models::parse_checkpoint("fuzz", bytes).tensors) values += tensor.values.size();
    require(values * sizeof(float) <= bytes.size(), "a checkpoint holds what its file does");
  });
}

constexpr Target all[] = {{"sizes", read_sizes},        {"options", read_options},   {"results", read_results},
                          {"tuning", read_tuning},      {"profile", read_profile},   {"schedule", read_schedule},
                          {"msccl_xml", read_schedule}, {"topology", read_topology}, {"nvidia_smi", read_topology},
                          {"nccl_xml", read_topology},  {"idx", read_idx},           {"checkpoint", read_checkpoint}};

}  // namespace

std::span<const Target> targets() { return all; }

}  // namespace fuzz
