// SPDX-License-Identifier: Apache-2.0
// Reads the topology that NCCL writes with NCCL_TOPO_DUMP_FILE and reads with NCCL_TOPO_FILE (its src/graph/xml.cc and
// topo.cc), and RCCL's, which says xgmi for nvlink. Files of clouds hold devices without <gpu>, found by their PCI
// class, and speeds that NCCL does not know, which it takes for generation 3.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "allreduce/parsers/machine.hpp"
#include "allreduce/parsers/xml.hpp"
#include "harness/error.hpp"

namespace allreduce {

using harness::UsageError;
using nlohmann::json;

namespace {

class Reader {
 public:
  json read(const pugi::xml_node& system) {
    std::set<std::string> ids;
    for (const auto& cpu : system.children("cpu")) {
      if (!ids.insert(cpu.attribute("numaid").as_string()).second) throw UsageError("two <cpu> have the same numaid");
    }
    if (ids.empty()) throw UsageError("<system> has no <cpu>");
    const auto first = system.child("cpu");
    host_ = host_of(first);
    int number = 0;
    const int cpus = static_cast<int>(ids.size());
    for (const auto& cpu : system.children("cpu")) {
      // More than two NUMA nodes are parts of sockets, which come in twos.
      const int socket = cpus > 2 ? number * 2 / cpus : number;
      ++number;
      for (const auto& pci : cpu.children("pci")) visit(pci, "cpu" + std::to_string(socket));
    }
    if (gpus_.empty()) throw UsageError("it has no device: no <gpu>, and no <pci> of class 0x0302");
    if (cpus > 1) links_.push_back({"cpu0", "cpu1", socket_link()});
    add_nvlinks();
    const DeviceModel& model = model_of_generation(generation_);
    const bool amd = nvlink_ == "xgmi3" || nvlink_ == "xgmi2";
    return {{"about", std::to_string(gpus_.size()) + " devices, read from NCCL's topology XML" +
                          (has_nvlinks_ ? "" : ", which has no NVLinks")},
            {"gpus", gpus_.size()},
            {"generation", amd ? "" : generation_},
            {"memory", amd ? find_model(nvlink_ == "xgmi3" ? "MI300" : "MI100")->memory : model.memory},
            {"host", host_},
            {"reach", "everywhere"},
            {"in_switch_reduction", behind_switch_ && (nvlink_ == "nvlink4" || nvlink_ == "nvlink5")},
            {"links", links_}};
  }

 private:
  struct Gpu {
    std::string busid;
    pugi::xml_node node;
  };

  static std::string host_of(const pugi::xml_node& cpu) {
    const std::string vendor = cpu.attribute("vendor").as_string();
    const int family = cpu.attribute("familyid").as_int();
    const int model = cpu.attribute("modelid").as_int();
    if (std::string(cpu.attribute("arch").as_string()).starts_with("arm")) return "grace";
    if (vendor == "AuthenticAMD") return family > 25 || (family == 25 && model >= 16) ? "amd-genoa" : "amd-rome";
    return model >= 106 ? "intel-spr" : model == 85 ? "intel-skylake" : "intel-e5";
  }

  std::string socket_link() const {
    static const std::map<std::string, std::string> links = {{"grace", "xgmi-genoa"},   {"amd-genoa", "xgmi-genoa"},
                                                             {"amd-rome", "xgmi-rome"}, {"intel-spr", "upi-spr"},
                                                             {"intel-e5", "qpi-bdw"},   {"intel-skylake", "upi-skl"}};
    return links.at(host_);
  }

  // Class and number of x16 links of it. "16.0 GT/s PCIe", "8 GT/s"; what NCCL does not know counts as 3 x16.
  static std::pair<std::string, double> pcie_of(const pugi::xml_node& pci) {
    const double speed = std::atof(pci.attribute("link_speed").as_string());
    int width = pci.attribute("link_width").as_int();
    if (width <= 0 || width > 32) width = 16;
    const double lanes = width / 16.0;
    if (speed >= 63) return {"pcie6", lanes};
    if (speed >= 31) return {"pcie5", lanes};
    if (speed >= 15) return {"pcie4", lanes};
    if (speed >= 4.9 && speed < 5.1) return {"pcie3", lanes / 2};
    if (speed >= 2.4 && speed < 2.6) return {"pcie3", lanes / 4};
    return {"pcie3", lanes};
  }

  void visit(const pugi::xml_node& pci, const std::string& parent) {
    const std::string pci_class = pci.attribute("class").as_string();
    const std::string busid = pci.attribute("busid").as_string();
    if (busid.empty()) throw UsageError("a <pci> has no busid");
    if (!busids_.insert(busid).second) throw UsageError("two <pci> have the busid " + busid);
    const auto [link, count] = pcie_of(pci);
    if (pci.child("gpu") || pci_class.starts_with("0x0302") || pci_class.starts_with("0x0300")) {
      const std::string node = "gpu" + std::to_string(gpus_.size());
      links_.push_back({node, parent, link, count});
      gpus_.push_back({busid, pci.child("gpu")});
      learn(pci, link);
    } else if (pci.child("nic") || pci_class.starts_with("0x02")) {
      return;  // network cards join machines, and this is one
    } else if (has_devices(pci)) {
      const std::string node = "switch" + std::to_string(switches_++);
      links_.push_back({node, parent, link, count});
      for (const auto& child : pci.children("pci")) visit(child, node);
    }
  }

  static bool has_devices(const pugi::xml_node& pci) {
    return !pci.select_nodes(".//gpu").empty() || !pci.select_nodes(".//pci[starts-with(@class, '0x030')]").empty();
  }

  void learn(const pugi::xml_node& pci, const std::string& link) {
    if (gpus_.size() > 1) return;
    const int sm = pci.child("gpu").attribute("sm").as_int();
    if (pci.child("gpu").attribute("gcn")) {
      nvlink_ = std::string(pci.child("gpu").attribute("gcn").as_string()).find("94") != std::string::npos ? "xgmi3"
                                                                                                           : "xgmi2";
      return;
    }
    struct Version {
      int sm;
      const char *generation, *nvlink;
    };
    static constexpr Version versions[] = {{100, "blackwell", "nvlink5"}, {90, "hopper", "nvlink4"},
                                           {89, "ada", "nvlink4"},        {86, "ampere", "nvlink3-bridge"},
                                           {80, "ampere", "nvlink3"},     {70, "volta", "nvlink2"},
                                           {60, "pascal", "nvlink1"},     {1, "kepler", "nvlink1"}};
    for (const Version& version : versions) {
      if (sm < version.sm) continue;
      generation_ = version.generation;
      nvlink_ = version.nvlink;
      return;
    }
    generation_ = link == "pcie5" ? "hopper" : link == "pcie4" ? "ampere" : "volta";
  }

  void add_nvlinks() {
    std::map<std::pair<int, int>, double> direct;
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      double to_switch = 0;
      for (const char* tag : {"nvlink", "xgmi"}) {
        for (const auto& link : gpus_[gpu].node.children(tag)) {
          const std::string target = link.attribute("target").as_string();
          const double count = link.attribute("count").as_double(1);
          if (!(count > 0) || count > 64)
            throw UsageError("<" + std::string(tag) + "> with a count of none, or too many");
          if (std::string(link.attribute("tclass").as_string()).starts_with("0x0680")) {
            to_switch += count;
            continue;
          }
          const auto peer = std::ranges::find(gpus_, target, &Gpu::busid);
          if (peer == gpus_.end()) {
            throw UsageError("<" + std::string(tag) + "> leads to " + target + ", which is no device of the file");
          }
          const auto other = static_cast<int>(peer - gpus_.begin());
          if (other != static_cast<int>(gpu)) direct[{static_cast<int>(gpu), other}] += count;
        }
      }
      if (to_switch > 0) {
        links_.push_back({"gpu" + std::to_string(gpu), "nvswitch", nvlink_, to_switch});
        behind_switch_ = has_nvlinks_ = true;
      }
    }
    for (const auto& [pair, count] : direct) {
      has_nvlinks_ = true;
      links_.push_back({{"from", "gpu" + std::to_string(pair.first)},
                        {"to", "gpu" + std::to_string(pair.second)},
                        {"class", nvlink_},
                        {"count", count},
                        {"one_way", true}});
    }
  }

  std::vector<Gpu> gpus_;
  std::set<std::string> busids_;
  json links_ = json::array();
  std::string host_, generation_ = "ampere", nvlink_ = "nvlink3";
  int switches_ = 0;
  bool behind_switch_ = false, has_nvlinks_ = false;
};

}  // namespace

json read_nccl_xml(const std::string& text) {
  pugi::xml_document document;
  load_xml(document, text);
  const auto root = document.document_element();
  const std::string name = root.name();
  if (name == "graphs") {
    throw UsageError("this is NCCL's choice of channels (NCCL_GRAPH_DUMP_FILE); wanted is NCCL_TOPO_DUMP_FILE");
  }
  if (name == "algo") throw UsageError("this is an MSCCL program: it belongs to --schedule");
  if (name == "topology") throw UsageError("this is hwloc's XML; wanted is NCCL's (NCCL_TOPO_DUMP_FILE)");
  if (name != "system")
    throw UsageError("<" + name.substr(0, 40) + "> is no topology of NCCL's, whose root is <system>");
  return Reader().read(root);
}

}  // namespace allreduce
