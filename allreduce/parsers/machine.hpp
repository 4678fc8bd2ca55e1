// SPDX-License-Identifier: Apache-2.0
// What the readers of other tools' files share: what they find is written down as a topology in our own JSON, and what
// such a file does not say (the generation of the devices, the speed of their links) is taken from their names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace allreduce {

// What a device's name tells of it.
struct DeviceModel {
  const char* name;        // as it stands in "GPU 0: NVIDIA A100-SXM4-80GB"
  const char* generation;  // "ampere"
  const char* memory;      // class of its own memory
  const char* nvlink;      // class of its NVLinks
  const char* pcie;        // class of its PCIe link
  const char* host;        // of a server of its time
  bool peers;              // whether the driver lets it reach peers over PCIe
};

// The model that a text names first, or null.
const DeviceModel* find_model(const std::string& text);
// A model of that generation, for devices without a name; "bridged" are those with four NVLinks on a bridge.
const DeviceModel& model_of_generation(const std::string& generation);

// The paste of `nvidia-smi topo -m`, also with `nvidia-smi -L` and `nvidia-smi topo -p2p r` in it. Throws UsageError
// that names the row which is wrong.
nlohmann::json read_nvidia_smi(const std::string& text);

// NCCL's (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE) or RCCL's topology XML. Throws UsageError.
nlohmann::json read_nccl_xml(const std::string& text);

}  // namespace allreduce
