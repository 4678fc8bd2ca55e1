// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda_links.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/device/cuda.hpp"
#include "harness/device/cuda_native.hpp"

namespace harness {

namespace {

// The part of NVML that is used, as its documentation (NVML API reference, 2024) declares it: the toolkit does not
// always bring nvml.h, and the library belongs to the driver.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library_, name));
      return function != nullptr;
    };
    Status (*begin)() = nullptr;
    working_ = load(begin, "nvmlInit_v2") && load(end_, "nvmlShutdown") &&
               load(driver_, "nvmlSystemGetDriverVersion") && load(handle_, "nvmlDeviceGetHandleByPciBusId_v2") &&
               load(state_, "nvmlDeviceGetNvLinkState") && load(remote_, "nvmlDeviceGetNvLinkRemotePciInfo_v2") &&
               begin() == success;
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (working_) end_();
    if (library_) dlclose(library_);
  }

  bool working() const { return working_; }

  std::string driver() const {
    std::array<char, 96> text{};
    if (!working_ || driver_(text.data(), text.size() - 1) != success) return "";
    return text.data();
  }

  // Active links of a GPU to the other, or else to what is no GPU of this machine, which is a switch.
  int active_links(const std::string& bus_id, const std::string& peer_bus_id,
                   const std::vector<std::string>& all_bus_ids) const {
    void* device = nullptr;
    if (!working_ || handle_(bus_id.c_str(), &device) != success) return 0;
    int direct = 0, to_switch = 0;
    for (unsigned link = 0; link < most_links; ++link) {
      unsigned active = 0;
      PciInfo remote{};
      if (state_(device, link, &active) != success || active == 0) continue;
      if (remote_(device, link, &remote) != success) continue;
      const auto is_remote = [&](const std::string& id) { return same_bus_id(id, remote.bus_id); };
      if (is_remote(peer_bus_id)) {
        ++direct;
      } else if (std::none_of(all_bus_ids.begin(), all_bus_ids.end(), is_remote)) {
        ++to_switch;
      }
    }
    return direct > 0 ? direct : to_switch;
  }

 private:
  using Status = int;
  static constexpr Status success = 0;
  static constexpr unsigned most_links = 18;  // NVML_NVLINK_MAX_LINKS
  struct PciInfo {                            // nvmlPciInfo_t
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
  };

  // NVML writes the domain with eight digits, CUDA with four.
  static bool same_bus_id(const std::string& a, const std::string& b) {
    const auto tail = [](const std::string& id) {
      std::string lower = id.size() > 12 ? id.substr(id.size() - 12) : id;
      for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      return lower;
    };
    return tail(a) == tail(b);
  }

  void* library_;
  bool working_ = false;
  Status (*end_)() = nullptr;
  Status (*driver_)(char*, unsigned) = nullptr;
  Status (*handle_)(const char*, void**) = nullptr;
  Status (*state_)(void*, unsigned, unsigned*) = nullptr;
  Status (*remote_)(void*, unsigned, PciInfo*) = nullptr;
};

std::vector<std::string> bus_ids() {
  std::vector<std::string> ids;
  for (int gpu = 0; gpu < count_gpus(); ++gpu) ids.push_back(pci_bus_id(gpu));
  return ids;
}

int p2p_attribute(cudaDeviceP2PAttr attribute, int reader, int owner) {
  int value = 0;
  check_cuda(cudaDeviceGetP2PAttribute(&value, attribute, reader, owner), "asking how two GPUs are connected");
  return value;
}

GpuLink find_link(const Nvml& nvml, const std::vector<std::string>& ids, int reader, int owner) {
  GpuLink link;
  if (p2p_attribute(cudaDevP2PAttrAccessSupported, reader, owner) == 0) return link;
  link.nvlinks = nvml.active_links(ids.at(reader), ids.at(owner), ids);
  // Without NVML: a GPU does atomic operations in a peer's memory over NVLink, and not over PCIe.
  const bool over_nvlink =
      nvml.working() ? link.nvlinks > 0 : p2p_attribute(cudaDevP2PAttrNativeAtomicSupported, reader, owner) != 0;
  link.route = over_nvlink ? Route::nvlink : Route::pcie;
  return link;
}

std::string version_text(int version) {  // 13000 is 13.0
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace

std::string pci_bus_id(int gpu) {
  std::array<char, 32> text{};
  check_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu),
             "asking where a GPU is plugged in");
  return text.data();
}

GpuLink find_link(int reader, int owner) { return find_link(Nvml(), bus_ids(), reader, owner); }

std::string driver_version() { return Nvml().driver(); }

void describe_gpus(nlohmann::json& machine) {
  int runtime = 0, driver = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) machine["libraries"]["cuda"] = version_text(runtime);
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
    machine["libraries"]["cuda_driver"] = version_text(driver);
  }
  const int gpus = count_gpus();
  if (gpus == 0) return;
  const Nvml nvml;
  if (const std::string version = nvml.driver(); !version.empty()) machine["driver"] = version;
  const auto ids = bus_ids();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, gpu), "asking what a GPU is");
    machine["devices"].push_back(
        {{"name", "cuda:" + std::to_string(gpu)},
         {"kind", "cuda"},
         {"index", gpu},
         {"model", properties.name},
         {"memory_bytes", properties.totalGlobalMem},
         {"compute_capability", std::to_string(properties.major) + '.' + std::to_string(properties.minor)},
         {"multiprocessors", properties.multiProcessorCount},
         {"pci_bus_id", ids[gpu]},
         {"ecc", properties.ECCEnabled != 0}});
    for (int owner = 0; owner < gpus; ++owner) {
      if (owner == gpu) continue;
      const GpuLink link = find_link(nvml, ids, gpu, owner);
      machine["links"].push_back({{"from", "cuda:" + std::to_string(owner)},
                                  {"to", "cuda:" + std::to_string(gpu)},
                                  {"kind", name(link.route)},
                                  {"count", link.nvlinks > 0 ? nlohmann::json(link.nvlinks) : nlohmann::json(nullptr)},
                                  {"peer_access", link.route != Route::staged}});
    }
  }
}

}  // namespace harness
