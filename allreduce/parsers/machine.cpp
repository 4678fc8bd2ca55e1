// SPDX-License-Identifier: Apache-2.0
#include "allreduce/parsers/machine.hpp"

#include <algorithm>
#include <cctype>

namespace allreduce {

namespace {

// Longer names before those that they contain. The last of a generation stands for devices without a name.
constexpr DeviceModel models[] = {
    {"GB200", "blackwell", "hbm3e-b200", "nvlink5", "pcie6", "grace", true},
    {"GH200", "hopper", "hbm3", "nvlink4", "pcie5", "grace", true},
    {"H100 PCIe", "hopper", "hbm2e-pcie5", "nvlink4", "pcie5", "intel-spr", true},
    {"H200", "hopper", "hbm3e", "nvlink4", "pcie5", "intel-spr", true},
    {"H800", "hopper", "hbm3", "nvlink4", "pcie5", "intel-spr", true},
    {"H20", "hopper", "hbm3", "nvlink4", "pcie5", "intel-spr", true},
    {"H100", "hopper", "hbm3", "nvlink4", "pcie5", "intel-spr", true},
    {"RTX PRO 6000", "blackwell", "gddr7", "nvlink5", "pcie5", "amd-genoa", true},
    {"RTX 50", "blackwell", "gddr7", "nvlink5", "pcie5", "amd-desktop-ddr5", false},
    {"B200", "blackwell", "hbm3e-b200", "nvlink5", "pcie5", "intel-spr", true},
    {"L40", "ada", "gddr6-a6000", "nvlink4", "pcie4", "amd-rome", true},
    {"L20", "ada", "gddr6-a6000", "nvlink4", "pcie4", "amd-rome", true},
    {"RTX 40", "ada", "gddr6x", "nvlink4", "pcie4", "amd-desktop-ddr5", false},
    {"A6000", "ampere", "gddr6-a6000", "nvlink3-bridge", "pcie4", "amd-rome", true},
    {"A40", "ampere", "gddr6-a6000", "nvlink3-bridge", "pcie4", "amd-rome", true},
    {"RTX 30", "ampere", "gddr6x", "nvlink3-bridge", "pcie4", "amd-desktop", false},
    {"A800", "ampere", "hbm2e-80", "nvlink3", "pcie4", "amd-rome", true},
    {"A100", "ampere", "hbm2e-80", "nvlink3", "pcie4", "amd-rome", true},
    {"V100", "volta", "hbm2", "nvlink2", "pcie3", "intel-skylake", true},
    {"GTX 10", "pascal", "gddr5x", "nvlink1", "pcie3", "intel-e5", true},
    {"P100", "pascal", "hbm2", "nvlink1", "pcie3", "intel-e5", true},
    {"K80", "kepler", "gddr5-k80", "nvlink1", "pcie3", "intel-e5", true},
    {"MI300", "", "hbm3", "xgmi3", "pcie5", "amd-genoa", true},
    {"MI100", "", "hbm2", "xgmi2", "pcie4", "amd-rome", true},
};

}  // namespace

const DeviceModel* find_model(const std::string& text) {
  const auto found = std::ranges::find_if(models, [&](const DeviceModel& model) {
    // "H20" is no part of "H200", nor "L40" of "CL401".
    for (auto at = text.find(model.name); at != std::string::npos; at = text.find(model.name, at + 1)) {
      const std::size_t end = at + std::char_traits<char>::length(model.name);
      const bool series = std::string_view(model.name).find('X') != std::string_view::npos;  // "RTX 40" and "GTX 10"
      const bool before = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
      const bool after = end == text.size() || series || !std::isdigit(static_cast<unsigned char>(text[end]));
      if (before && after) return true;
    }
    return false;
  });
  return found == std::end(models) ? nullptr : &*found;
}

const DeviceModel& model_of_generation(const std::string& generation) {
  if (generation == "bridged") return *find_model("A6000");
  const DeviceModel* last = nullptr;
  for (const DeviceModel& model : models) {
    if (model.generation == generation && model.peers) last = &model;
  }
  return last ? *last : model_of_generation("ampere");
}

}  // namespace allreduce
