// SPDX-License-Identifier: Apache-2.0
#include "models/backend.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "harness/device/cpu.hpp"
#include "harness/device/cuda.hpp"
#include "harness/options.hpp"

namespace models {

namespace {

constexpr std::array rows = {
#ifdef RINGMARK_ONEDNN
    BackendRow{"onednn", "Intel's library of primitives, on all threads of a device", make_onednn_backend},
#else
    BackendRow{"onednn", "Intel's library of primitives, on all threads of a device", nullptr,
               "it was built without oneDNN (Debian: libdnnl-dev)"},
#endif
    BackendRow{"plain", "loops on one thread: the truth that others are held against", make_plain_backend},
#ifdef RINGMARK_CUDNN
    BackendRow{"cudnn", "NVIDIA's cuDNN and cuBLAS, on a GPU", make_cudnn_backend, {}, true},
#else
    BackendRow{"cudnn", "NVIDIA's cuDNN and cuBLAS, on a GPU", nullptr,
               "it was built without cuDNN (needs the preset cuda, the CUDA toolkit and cuDNN 9)", true},
#endif
};

}  // namespace

std::string_view name(Math math) {
  switch (math) {
    case Math::f32: return "f32";
    case Math::winograd: return "winograd";
    case Math::tf32: return "tf32";
    case Math::bf16: return "bf16";
  }
  return "";
}

Math parse_math(std::string_view text) {
  for (const Math math : {Math::f32, Math::winograd, Math::tf32, Math::bf16}) {
    if (name(math) == text) return math;
  }
  throw harness::bad_value("math", text, "allowed: f32, winograd, tf32, bf16");
}

void require_math(Math asked, std::initializer_list<Math> has, std::string_view who) {
  if (std::find(has.begin(), has.end(), asked) != has.end()) return;
  std::string names;
  for (const Math math : has) names.append(names.empty() ? "" : ", ").append(name(math));
  throw harness::bad_value("math", name(asked), std::string(who).append(" has: ").append(names));
}

std::span<const BackendRow> backends() { return rows; }

void issue(harness::Stream& stream, std::function<void()> work) {
  if (harness::is_gpu(stream.device())) {
    work();
  } else {
    harness::run(stream, std::move(work));
  }
}

std::string_view default_backend() {
  return std::find_if(rows.begin(), rows.end(), [](const BackendRow& row) { return row.make != nullptr; })->name;
}

std::string_view default_backend(const harness::Device& device) {
  return harness::is_gpu(device) ? "cudnn" : default_backend();
}

void Backend::step(const Trained& what, const Sgd& how) {
  float* parameters = what.parameters;
  const auto images = static_cast<double>(how.images);
  if (how.momentum == 0 && how.weight_decay == 0) {
    const auto rate = static_cast<float>(how.lr / images);
    for (std::size_t i = 0; i < what.count; ++i) parameters[i] -= rate * what.gradients[i];
    return;
  }
  const auto lr = static_cast<float>(how.lr), part = static_cast<float>(1 / images);
  const auto kept = static_cast<float>(how.momentum), decay = static_cast<float>(how.weight_decay);
  for (std::size_t i = 0; i < what.count; ++i) {
    float change = what.gradients[i] * part + decay * parameters[i];
    if (what.momentum) change = what.momentum[i] = kept * what.momentum[i] + change;
    parameters[i] -= lr * change;
  }
}

void Backend::clear(float* values, std::size_t count) { std::fill_n(values, count, 0.0F); }

void Backend::copy(const float* from, float* to, std::size_t count) { std::copy_n(from, count, to); }

void Backend::add(const float* from, float* into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
}

const BackendRow& find_backend(std::string_view name) {
  std::string known;
  for (const auto& row : rows) {
    if (row.name == name && row.make) return row;
    if (row.name == name) throw harness::bad_value("backend", name, row.lacks);
    if (row.make) known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw harness::bad_value("backend", name, "this build has: " + known);
}

}  // namespace models
