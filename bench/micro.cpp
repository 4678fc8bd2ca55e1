// SPDX-License-Identifier: Apache-2.0
// bench_micro: what an all-reduce is made of, one part at a time, by Google Benchmark: writing a schedule down and
// proving it, the reduce kernels, issuing or launching an op, and the traffic to memory that no all-reduce can avoid.
// It keeps watch over the parts; its own options are Google Benchmark's (--help names them).
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <charconv>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "allreduce/algorithms.hpp"
#include "allreduce/engine.hpp"
#include "allreduce/verify.hpp"
#include "bench/yardstick.hpp"
#include "harness/clock.hpp"
#include "harness/device/cpu.hpp"
#include "harness/device/device.hpp"
#include "harness/device/reduce.hpp"

namespace {

using benchmark::State;

constexpr int runs_at_once = 100;

void build(State& state, const allreduce::Algorithm& algorithm) {
  const allreduce::Shape shape{static_cast<int>(state.range(0))};
  std::size_t ops = 0;
  for (auto _ : state) ops = algorithm.build(shape).ops.size();
  state.counters["ops"] = static_cast<double>(ops);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ops));
}

void prove(State& state, const allreduce::Algorithm& algorithm) {
  const auto schedule = algorithm.build({static_cast<int>(state.range(0))});
  for (auto _ : state) {
    if (!allreduce::verify(schedule).proved) state.SkipWithError("the schedule is not proved");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(schedule.ops.size()));
}

void reduce(State& state, harness::Dtype dtype) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes), into(bytes);
  const harness::Reduction reduction{dtype, harness::Op::max};  // max: values stay what they are
  for (auto _ : state) {
    harness::reduce_on_host(from.data(), into.data(), bytes / harness::size_of(dtype), reduction);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// Devices with a vector of so many bytes on each.
struct Vectors {
  Vectors(int ranks, std::size_t bytes) : devices(harness::open_devices("cpu:" + std::to_string(ranks), {1, 60.0})) {
    for (int rank = 0; rank < ranks; ++rank) {
      memory.push_back((*devices)[rank].allocate(bytes));
      std::fill_n(memory.back().data(), bytes, std::byte{});
      data.push_back(memory.back().data());
    }
  }
  std::unique_ptr<harness::Devices> devices;
  std::vector<harness::Buffer> memory;
  std::vector<std::byte*> data;
};

// Seconds of one of the runs of an iteration.
void show_run(State& state) {
  state.counters["all-reduce"] =
      benchmark::Counter(runs_at_once, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// An all-reduce of one element a chunk: nothing but issuing its ops, handing them over and waking up.
void launch(State& state, allreduce::Launch how) {
  const int ranks = static_cast<int>(state.range(0));
  const std::size_t count = ranks;
  Vectors vectors(ranks, count * sizeof(float));
  const auto schedule = allreduce::ring({ranks});
  const auto program = allreduce::prepare(
      schedule, {vectors.devices.get(), count, harness::Dtype::f32, harness::Op::sum, how, {{vectors.data}}});
  program->time(1);
  for (auto _ : state) state.SetIterationTime(program->time(runs_at_once) * runs_at_once);
  state.SetItemsProcessed(state.iterations() * runs_at_once * static_cast<std::int64_t>(schedule.ops.size()));
  show_run(state);
}

// An all-reduce of two ranks by the compiled program.
void recorded(State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Vectors vectors(2, bytes);
  const auto program = allreduce::prepare(allreduce::ring({2}), {vectors.devices.get(),
                                                                 bytes / sizeof(float),
                                                                 harness::Dtype::f32,
                                                                 harness::Op::sum,
                                                                 allreduce::Launch::graph,
                                                                 {{vectors.data}}});
  for (auto _ : state) state.SetIterationTime(program->time(runs_at_once) * runs_at_once);
  show_run(state);
}

// The least that could do the same: two threads with a flag each, in a bare loop. Each sums its half of both vectors
// and writes it to both, says so, and waits for the other.
void bare(State& state) {
  struct alignas(64) Flag {
    std::atomic<std::uint64_t> run{0};
  };
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  Vectors vectors(2, count * sizeof(float));
  std::array<Flag, 2> flags;
  std::array<std::unique_ptr<harness::Stream>, 2> streams;
  for (int rank = 0; rank < 2; ++rank) streams[rank] = (*vectors.devices)[rank].make_stream();
  std::array<double, 2> begins = {}, ends = {};
  std::uint64_t before = 0;
  for (auto _ : state) {
    for (int rank = 0; rank < 2; ++rank) {
      harness::run(*streams[rank], [&, rank, before] {
        auto* first = reinterpret_cast<float*>(vectors.data[0]) + count / 2 * rank;
        auto* second = reinterpret_cast<float*>(vectors.data[1]) + count / 2 * rank;
        const std::size_t own = rank == 0 ? count / 2 : count - count / 2;
        for (std::uint64_t run = before; run <= before + runs_at_once; ++run) {
          if (run == before + 1) begins[rank] = harness::steady_seconds();  // both are there
          for (std::size_t i = 0; i < own; ++i) first[i] = second[i] = first[i] + second[i];
          flags[rank].run.store(run + 1, std::memory_order_release);
          while (flags[1 - rank].run.load(std::memory_order_acquire) < run + 1) {
          }
        }
        ends[rank] = harness::steady_seconds();
      });
    }
    for (const auto& stream : streams) stream->sync();
    before += runs_at_once + 1;
    state.SetIterationTime(std::max(ends[0], ends[1]) - std::min(begins[0], begins[1]));
  }
  show_run(state);
}

void yardstick(State& state) {
  const int ranks = static_cast<int>(state.range(0));
  Vectors vectors(ranks, static_cast<std::size_t>(state.range(1)));
  bench::Yardstick least(*vectors.devices, {vectors.data.begin(), vectors.data.end()}, vectors.data,
                         static_cast<std::size_t>(state.range(1)));
  least.time(1);
  for (auto _ : state) state.SetIterationTime(least.time(1));
  state.SetBytesProcessed(2 * state.iterations() * state.range(0) * state.range(1));
}

void register_all() {
  for (const auto& algorithm : allreduce::algorithms()) {
    const auto name = std::string(algorithm.name);
    benchmark::RegisterBenchmark(("build/" + name).c_str(), build, algorithm)->RangeMultiplier(4)->Range(4, 64);
    benchmark::RegisterBenchmark(("prove/" + name).c_str(), prove, algorithm)->RangeMultiplier(4)->Range(4, 64);
  }
  for (const auto dtype :
       {harness::Dtype::f32, harness::Dtype::f64, harness::Dtype::f16, harness::Dtype::bf16, harness::Dtype::i32}) {
    benchmark::RegisterBenchmark(("reduce/" + std::string(harness::name(dtype))).c_str(), reduce, dtype)
        ->RangeMultiplier(64)
        ->Range(4 << 10, 16 << 20);
  }
  const std::map<std::string, allreduce::Launch> launches = {{"eager", allreduce::Launch::eager},
                                                             {"graph", allreduce::Launch::graph}};
  for (const auto& [name, how] : launches) {
    benchmark::RegisterBenchmark(("launch/" + name).c_str(), launch, how)->Arg(2)->Arg(4)->UseManualTime();
  }
  for (const auto& [name, function] :
       {std::pair{"all-reduce/recorded", &recorded}, std::pair{"all-reduce/bare", &bare}}) {
    benchmark::RegisterBenchmark(name, function)->RangeMultiplier(16)->Range(16, 16 << 20)->UseManualTime();
  }
  benchmark::RegisterBenchmark("yardstick", yardstick)
      ->ArgsProduct({{2, 4}, {4 << 10, 1 << 20, 16 << 20}})
      ->UseManualTime();
}

// Newer versions of the library abort where the value of this option is no time: "0.5", "0.5s" or "100x".
bool is_min_time(std::string_view value) {
  if (value.ends_with('s') || value.ends_with('x')) value.remove_suffix(1);
  double number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc() && stop == value.data() + value.size() && number >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view min_time = "--benchmark_min_time=";
  for (const std::string_view argument : std::span(argv + 1, argv + argc)) {
    if (!argument.starts_with(min_time) || is_min_time(argument.substr(min_time.size()))) continue;
    std::cerr << "bench_micro: " << argument << ": allowed: a time such as 0.5s, or 100x for so many runs\n";
    return 2;
  }
  register_all();
  benchmark::Initialize(&argc, argv);
  // An option that it does not know is left over, and would be ignored in silence.
  if (argc > 1) {
    std::cerr << "bench_micro: " << argv[1] << ": unknown option; --help lists what is allowed\n";
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
