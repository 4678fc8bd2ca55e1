// SPDX-License-Identifier: Apache-2.0
// The project's own kernels, the same source compiled for the host, each found by the mangled name that nvcc registers.
// A launch runs its threads one after the other; those of kernels that wait for each other are fibers.
#include <dlfcn.h>

#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tests/fake_cuda/host_kernel.hpp"
//
#include "allreduce/device_values.cuh"
#include "allreduce/engines/direct.cuh"
#include "harness/device/kernels.cuh"
#include "harness/device/work_kernels.cuh"
#include "models/backends/kernels.cuh"
#include "tests/fake_cuda/fibers.hpp"
#include "tests/fake_cuda/machine.hpp"

namespace fake {

namespace {

using Body = std::function<Work(const Launch&)>;  // what a launch is, once its arguments are known
using Bind = std::function<Body(void**)>;

template <typename... Arguments>
std::function<void()> run_threads(void (*kernel)(Arguments...), std::tuple<Arguments...> arguments, Launch launch) {
  return [=] {
    gridDim = launch.grid;
    blockDim = launch.block;
    for (blockIdx = {0, 0, 0}; blockIdx.x < launch.grid.x; ++blockIdx.x) {
      for (threadIdx = {0, 0, 0}; threadIdx.x < launch.block.x; ++threadIdx.x) std::apply(kernel, arguments);
    }
  };
}

template <typename... Arguments, std::size_t... index>
std::tuple<Arguments...> arguments_of(void (*)(Arguments...), void** values, std::index_sequence<index...>) {
  return {*static_cast<Arguments*>(values[index])...};
}

enum class Threads { one_by_one, fibers };

// `touches` gives what a launch accesses, from its arguments.
template <typename... Arguments, typename Touches>
std::pair<std::string, Bind> row(void (*kernel)(Arguments...), Touches touches, Threads threads = Threads::one_by_one) {
  Dl_info symbol{};
  if (dladdr(reinterpret_cast<void*>(kernel), &symbol) == 0 || !symbol.dli_sname) misuse("a kernel has no name");
  return {symbol.dli_sname, [=, name = std::string(symbol.dli_sname)](void** values) -> Body {
            const auto arguments = arguments_of(kernel, values, std::index_sequence_for<Arguments...>());
            return [=](const Launch& launch) -> Work {
              const auto require_reach = [=] {
                for (const Access& access : std::apply(touches, arguments)) {
                  Machine::instance().require_reach(launch.gpu, access, "the kernel " + name);
                }
              };
              if (threads == Threads::fibers) {
                return {.run = {}, .begin = [=] {
                          require_reach();
                          return begin_fibers(launch, [=] { std::apply(kernel, arguments); });
                        }};
              }
              return {[=, run = run_threads(kernel, arguments, launch)] {
                require_reach();
                run();
              }};
            };
          }};
}

template <typename Stored, harness::Op op>
std::pair<std::string, Bind> reduce_row() {
  return row(harness::kernels::reduce<Stored, op>,
             [](const Stored* from, Stored* into, std::size_t count, std::size_t, int) {
               return std::vector<Access>{{from, count * sizeof(Stored)}, {into, count * sizeof(Stored)}};
             });
}

template <typename Stored>
void add_reduces(std::unordered_map<std::string, Bind>& table) {
  table.insert({reduce_row<Stored, harness::Op::sum>(), reduce_row<Stored, harness::Op::min>(),
                reduce_row<Stored, harness::Op::max>(), reduce_row<Stored, harness::Op::prod>()});
}

template <typename Stored, harness::Op op>
void add_direct(std::unordered_map<std::string, Bind>& table) {
  const auto touches = [](const allreduce::DirectCall& call) {
    const std::size_t bytes = call.count * sizeof(Stored);
    std::vector<Access> all = {{call.input, bytes}, {call.output, bytes}, {call.missed, 4}, {call.launches, 4}};
    for (int rank = 0; rank < call.ranks; ++rank) {
      all.push_back({call.scratch[rank], 2 * ((bytes + 15) / 16 * 16)});
      all.push_back({call.arrived[rank], allreduce::most_direct_ranks * sizeof(std::uint32_t)});
    }
    return all;
  };
  table.insert(row(allreduce::kernels::one_shot<Stored, op>, touches, Threads::fibers));
  table.insert(row(allreduce::kernels::two_shot<Stored, op>, touches, Threads::fibers));
}

template <typename Stored>
void add_directs(std::unordered_map<std::string, Bind>& table) {
  add_direct<Stored, harness::Op::sum>(table);
  add_direct<Stored, harness::Op::min>(table);
  add_direct<Stored, harness::Op::max>(table);
  add_direct<Stored, harness::Op::prod>(table);
}

template <typename Stored>
void add_values(std::unordered_map<std::string, Bind>& table) {
  table.insert(row(allreduce::kernels::fill<Stored>,
                   [](const allreduce::Pattern&, int, bool, const Stored* into, std::size_t count) {
                     return std::vector<Access>{{into, count * sizeof(Stored)}};
                   }));
  table.insert(row(allreduce::kernels::count_wrong<Stored>,
                   [](const allreduce::Pattern&, int, const Stored* got, std::size_t, std::size_t first,
                      std::size_t part_count, const unsigned long long* wrong) {
                     return std::vector<Access>{{got + first, part_count * sizeof(Stored)}, {wrong, sizeof *wrong}};
                   }));
}

std::size_t of(int images, int classes) { return static_cast<std::size_t>(images) * classes * sizeof(float); }

// Those of models/.
void add_training(std::unordered_map<std::string, Bind>& table) {
  using Accesses = std::vector<Access>;
  namespace kernels = models::kernels;
  table.insert(row(kernels::loss, [](const float* logits, const std::uint8_t* labels, double* losses, int* hits,
                                     int images, int classes) {
    const auto count = static_cast<std::size_t>(images);
    return Accesses{
        {logits, of(images, classes)}, {labels, count}, {losses, count * sizeof(double)}, {hits, count * sizeof(int)}};
  }));
  table.insert(row(kernels::loss_gradient, [](const float* logits, const std::uint8_t* labels, float* gradient,
                                              int images, int classes) {
    return Accesses{
        {logits, of(images, classes)}, {labels, static_cast<std::size_t>(images)}, {gradient, of(images, classes)}};
  }));
  table.insert(row(kernels::totals, [](const double* losses, const int* hits, double* sum, int* correct, int images) {
    const auto count = static_cast<std::size_t>(images);
    return Accesses{
        {losses, count * sizeof(double)}, {hits, count * sizeof(int)}, {sum, sizeof(double)}, {correct, sizeof(int)}};
  }));
  table.insert(row(kernels::add_and_relu, [](float* main, const float* shortcut, std::size_t count) {
    return Accesses{{main, count * sizeof(float)}, {shortcut, count * sizeof(float)}};
  }));
  table.insert(row(kernels::relu_gradients, [](const float* sum, float* main, float* shortcut, std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    return Accesses{{sum, bytes}, {main, bytes}, {shortcut, bytes}};
  }));
  table.insert(row(kernels::step_with_momentum, [](float* parameters, const float* gradients, float* momentum,
                                                   std::size_t count, float, float, float, float) {
    const std::size_t bytes = count * sizeof(float);
    return Accesses{{parameters, bytes}, {gradients, bytes}, {momentum ? momentum : parameters, bytes}};
  }));
  table.insert(row(kernels::step, [](float* parameters, const float* gradients, std::size_t count, float) {
    return Accesses{{parameters, count * sizeof(float)}, {gradients, count * sizeof(float)}};
  }));
}

// Those of harness/device/work_kernels.cuh.
void add_work(std::unordered_map<std::string, Bind>& table) {
  using Accesses = std::vector<Access>;
  namespace kernels = harness::kernels;
  table.insert(row(kernels::narrow, [](const float* from, const __nv_bfloat16* to, std::size_t count) {
    return Accesses{{from, count * sizeof *from}, {to, count * sizeof *to}};
  }));
  table.insert(row(kernels::widen, [](const __nv_bfloat16* from, const float* to, std::size_t count) {
    return Accesses{{from, count * sizeof *from}, {to, count * sizeof *to}};
  }));
  const auto touches = [](const kernels::BrakeTimes* times, auto...) { return Accesses{{times, sizeof *times}}; };
  table.insert(row(kernels::begin_work, touches));
  table.insert(row(kernels::waste, touches));
}

std::unordered_map<std::string, Bind> make_table() {
  std::unordered_map<std::string, Bind> table;
  add_training(table);
  add_work(table);
  add_reduces<float>(table);
  add_reduces<double>(table);
  add_reduces<__half>(table);
  add_reduces<__nv_bfloat16>(table);
  add_reduces<std::int32_t>(table);
  add_values<float>(table);
  add_values<double>(table);
  add_values<__half>(table);
  add_values<__nv_bfloat16>(table);
  add_values<std::int32_t>(table);
  add_directs<float>(table);
  add_directs<double>(table);
  add_directs<__half>(table);
  add_directs<__nv_bfloat16>(table);
  add_directs<std::int32_t>(table);
  return table;
}

}  // namespace

std::optional<Body> bind_kernel(const std::string& name, void** arguments) {
  static const std::unordered_map<std::string, Bind> table = make_table();
  const auto found = table.find(name);
  if (found == table.end()) return std::nullopt;
  return found->second(arguments);
}

}  // namespace fake
