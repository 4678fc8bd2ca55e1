// SPDX-License-Identifier: Apache-2.0
// The forms in which people have their topology: nvidia-smi topo -m as it is pasted, and NCCL's XML.
#include <gtest/gtest.h>

#include <algorithm>

#include "allreduce/topologies.hpp"
#include "harness/error.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

Topology parsed(const std::string& text) { return parse_topology(text, "pasted", constants); }

int count(const Topology& topology, NodeKind kind) {
  return static_cast<int>(std::ranges::count(topology.nodes, kind, &Node::kind));
}

double nvlinks(const Topology& topology, Rank from, Rank to) {
  double links = 0;
  for (std::size_t link = 0; link < topology.links.size(); ++link) {
    const Link& found = topology.links[link];
    if (found.from == topology.ranks[from] && found.to == topology.ranks[to]) links += found.count;
  }
  return links;
}

void refused(const std::string& text, const std::string& says) {
  try {
    parsed(text);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const harness::UsageError& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find(says), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

const std::string pairs =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV4\tNODE\tNODE\tPIX\t0-23\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tNODE\tNODE\tPIX\t0-23\t0\t\tN/A\n"
    "GPU2\tNODE\tNODE\t X \tNV4\tSYS\t0-23\t0\t\tN/A\n"
    "GPU3\tNODE\tNODE\tNV4\t X \tSYS\t0-23\t0\t\tN/A\n"
    "NIC0\tPIX\tPIX\tSYS\tSYS\t X \n\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single "
    "bridge\n";

TEST(NvidiaSmi, BridgedPairsAndWhatHangsOnOneSwitch) {
  const Topology topology = parsed(pairs);
  EXPECT_EQ(topology.size(), 4);
  EXPECT_EQ(nvlinks(topology, 0, 1), 4);
  EXPECT_EQ(nvlinks(topology, 3, 2), 4);
  EXPECT_EQ(nvlinks(topology, 0, 2), 0);
  EXPECT_EQ(count(topology, NodeKind::pcie_switch), 1);  // both of the first pair see the card through bridges alone
  EXPECT_EQ(count(topology, NodeKind::cpu), 1);
  EXPECT_EQ(topology.generation, "ampere");
  EXPECT_NE(topology.about.find("taken for"), std::string::npos) << topology.about;
}

TEST(NvidiaSmi, ColourSpacesAndALostFirstTabChangeNothing) {
  std::string coloured = pairs;
  coloured.insert(0, "\x1b[4m");
  coloured.insert(coloured.find('\n'), "\x1b[0m");
  std::string spaced = pairs.substr(1);  // the first tab is gone
  for (auto at = spaced.find('\t'); at != std::string::npos; at = spaced.find('\t')) spaced.replace(at, 1, "    ");
  for (const std::string& text : {coloured, spaced, "$ nvidia-smi topo -m\r\n" + pairs, "   " + spaced}) {
    const Topology topology = parsed(text);
    EXPECT_EQ(topology.links.size(), parsed(pairs).links.size());
    EXPECT_EQ(nvlinks(topology, 0, 1), 4);
  }
}

// A matrix in which every two devices stand alike.
std::string alike(int gpus, const std::string& cell, const std::string& affinity = "\t0-31\t0") {
  std::string text;
  for (int gpu = 0; gpu < gpus; ++gpu) text.append("\tGPU").append(std::to_string(gpu));
  text += "\tCPU Affinity\tNUMA Affinity\n";
  for (int row = 0; row < gpus; ++row) {
    text.append("GPU").append(std::to_string(row));
    for (int column = 0; column < gpus; ++column) text.append("\t").append(row == column ? " X " : cell);
    text += affinity + "\n";
  }
  return text;
}

TEST(NvidiaSmi, EqualNvlinksBeyondADevicesOwnLeadToASwitch) {
  const Topology behind = parsed(alike(8, "NV18"));
  EXPECT_EQ(count(behind, NodeKind::nvswitch), 1);
  EXPECT_TRUE(behind.in_switch_reduction);
  EXPECT_EQ(behind.generation, "hopper");
  EXPECT_FALSE(parsed(alike(8, "NV12")).in_switch_reduction);
  EXPECT_EQ(parsed(alike(8, "NV12")).generation, "ampere");
  const Topology mesh = parsed(alike(4, "NV2"));
  EXPECT_EQ(count(mesh, NodeKind::nvswitch), 0);
  EXPECT_EQ(nvlinks(mesh, 0, 3), 2);
  EXPECT_EQ(mesh.generation, "volta");
}

TEST(NvidiaSmi, NamesOfDevicesAreBelieved) {
  const Topology consumer = parsed("GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-0)\n" + alike(2, "PHB"));
  EXPECT_EQ(consumer.generation, "blackwell");
  EXPECT_EQ(consumer.reach, Reach::none);
  const Topology server = parsed("GPU 0: NVIDIA H100 PCIe\n" + alike(2, "NV12"));
  EXPECT_EQ(server.generation, "hopper");
  EXPECT_EQ(server.reach, Reach::everywhere);
}

TEST(NvidiaSmi, AMatrixOfPermissionsTakesPeersAway) {
  const std::string permissions = "\tGPU0\tGPU1\nGPU0\tX\tGNS\nGPU1\tGNS\tX\n";
  EXPECT_EQ(parsed(alike(2, "PHB")).reach, Reach::everywhere);
  EXPECT_EQ(parsed(alike(2, "PHB") + "\n" + permissions).reach, Reach::none);
  EXPECT_EQ(parsed(permissions + "\n" + alike(2, "PHB")).reach, Reach::none);
}

TEST(NvidiaSmi, SocketsComeInTwosHoweverManyNumaNodes) {
  std::string text = alike(4, "SYS", "\t0-7\t0");
  for (int row = 0; row < 4; ++row) {
    const auto at = text.find("\t0-7\t0");
    const std::string digit = std::to_string(row);
    text.replace(at, 6, std::string("\t").append(digit).append("-9\t").append(digit));
  }
  const Topology topology = parsed(text);
  EXPECT_EQ(count(topology, NodeKind::cpu), 2);
  Router router(topology, Mover::kernel);
  EXPECT_EQ(router.between(0, 1).links.size(), 2u);
  EXPECT_EQ(router.between(0, 3).links.size(), 3u);
}

TEST(NvidiaSmi, WhatIsCutOffOrCrookedIsRefusedWithItsRow) {
  refused(pairs.substr(0, pairs.find("GPU3\tNODE")), "row GPU3 is missing");
  std::string shorter = pairs;
  shorter.replace(shorter.find("GPU2\tNODE\tNODE\t X \tNV4\tSYS\t0-23\t0\t\tN/A"), 38, "GPU2\tNODE\tNODE");
  refused(shorter, "row GPU2");
  std::string crooked = pairs;
  crooked.replace(crooked.find("NODE"), 4, "SYS");
  refused(crooked, "row GPU0 says SYS to GPU2, row GPU2 says NODE");
  std::string fused = pairs;
  fused.replace(fused.find("NODE\tNODE"), 9, "PXBNODE");
  refused(fused, "row GPU0");
  std::string unknown = pairs;
  unknown.replace(unknown.find("NODE"), 4, "FAST");
  refused(unknown, "'FAST' under GPU2");
  std::string self = pairs;
  self.replace(self.find(" X "), 3, "SYS");
  refused(self, "row GPU0: X stands");
  refused("GPU0 is a device", "line of its columns is missing");
}

std::string xml(const std::string& body) { return "<system version=\"1\">" + body + "</system>"; }

std::string gpu(const std::string& busid, const std::string& links, const char* sm = "90") {
  return "<pci busid=\"" + busid +
         "\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"" + sm +
         "\" rank=\"0\">" + links + "</gpu></pci>";
}

const std::string cpu = "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">";

TEST(NcclXml, SwitchesLinksAndGenerationsAreRead) {
  const std::string link = "<nvlink target=\"0000:04:00.0\" count=\"9\" tclass=\"0x068000\"/>";
  const Topology topology = parsed("<?xml version=\"1.0\"?><!-- a comment -->\n" +
                                   xml(cpu +
                                       "<pci busid=\"a\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
                                       "link_width=\"16\">" +
                                       gpu("b", link + link) + gpu("c", link + link) + "</pci></cpu>"));
  EXPECT_EQ(topology.size(), 2);
  EXPECT_EQ(count(topology, NodeKind::pcie_switch), 1);
  EXPECT_EQ(count(topology, NodeKind::nvswitch), 1);
  EXPECT_EQ(topology.generation, "hopper");
  EXPECT_TRUE(topology.in_switch_reduction);
  Router router(topology, Mover::kernel);
  EXPECT_NEAR(topology.rate(router.between(0, 1).links[0], Mover::kernel), 18 * 20.6e9, 1);
}

TEST(NcclXml, DirectLinksAreJoinedOnceAndAnOwnAddressIsIgnored) {
  const auto to = [](const char* target) {
    return "<nvlink target=\"" + std::string(target) + "\" count=\"4\" tclass=\"0x030200\"/>";
  };
  const Topology topology = parsed(xml(cpu + gpu("b", to("c") + to("b"), "86") + gpu("c", to("b"), "86") + "</cpu>"));
  EXPECT_EQ(nvlinks(topology, 0, 1), 4);
  EXPECT_EQ(nvlinks(topology, 1, 0), 4);
  EXPECT_EQ(nvlinks(topology, 0, 0), 0);
}

TEST(NcclXml, DevicesWithoutATagAndSpeedsThatNcclDoesNotKnow) {
  const Topology topology =
      parsed(xml(cpu + "<pci busid=\"b\" class=\"0x030200\" link_speed=\"\" link_width=\"0\"/>"
                       "<pci busid=\"c\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"8\"/>"
                       "<pci busid=\"d\" class=\"0x020000\"><nic><net name=\"x\"/></nic></pci></cpu>"));
  EXPECT_EQ(topology.size(), 2);
  const double one = topology.rate(0, Mover::kernel);
  Router router(topology, Mover::kernel);
  const auto& links = router.between(0, 1).links;
  EXPECT_DOUBLE_EQ(topology.rate(links[0], Mover::kernel), constants("links", "pcie3", "kernel"));
  EXPECT_DOUBLE_EQ(topology.rate(links[1], Mover::kernel), constants("links", "pcie3", "kernel") / 2);
  EXPECT_GT(one, 0);
  EXPECT_NE(topology.about.find("no NVLinks"), std::string::npos);
}

TEST(NcclXml, WhatIsNoTopologyIsRefused) {
  refused("<graphs version=\"1\"/>", "NCCL_TOPO_DUMP_FILE");
  refused("<topology version=\"2.0\"/>", "hwloc");
  refused("<algo name=\"x\"/>", "--schedule");
  refused("<system>", "broken");
  refused("<system></system>", "no <cpu>");
  refused(xml(cpu + "</cpu>"), "no device");
  refused(xml(cpu + "</cpu>" + cpu + "</cpu>"), "same numaid");
  refused(xml(cpu + gpu("b", "") + gpu("b", "") + "</cpu>"), "two <pci>");
  refused(xml(cpu + gpu("b", "<nvlink target=\"z\" count=\"1\" tclass=\"0x030200\"/>") + "</cpu>"), "leads to z");
  refused(xml(cpu + gpu("b", "<nvlink target=\"z\" count=\"-1\"/>") + "</cpu>"), "count");
  refused("<html></html>", "<html>");
}

}  // namespace
}  // namespace allreduce
