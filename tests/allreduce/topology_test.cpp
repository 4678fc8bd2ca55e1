// SPDX-License-Identifier: Apache-2.0
#include "allreduce/topology.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "allreduce/bound.hpp"
#include "allreduce/nccl_model.hpp"
#include "allreduce/published.hpp"
#include "allreduce/relabel.hpp"
#include "allreduce/topologies.hpp"
#include "harness/error.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

Topology named(const std::string& text) { return find_topology(text, constants); }

std::vector<Rank> in_order(int ranks) {
  std::vector<Rank> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Topologies, EveryDeviceOfEveryFileReachesEveryOther) {
  for (const std::string& name : topology_names()) {
    const Topology topology = named(name);
    Router router(topology, Mover::kernel);
    EXPECT_GT(topology.memory_rate, 0) << name;
    EXPECT_GT(topology.launch_seconds, 0) << name;
    EXPECT_FALSE(topology.about.empty()) << name;
    for (Rank from = 0; from < topology.size(); ++from) {
      for (Rank to = 0; to < topology.size(); ++to) {
        if (from == to) continue;
        const Route& route = router.between(from, to);
        ASSERT_FALSE(route.links.empty()) << name;
        int at = topology.ranks[from];
        for (const int link : route.links) {
          ASSERT_EQ(topology.links[link].from, at) << name << ": the way is broken";
          at = topology.links[link].to;
        }
        EXPECT_EQ(at, topology.ranks[to]) << name;
      }
    }
  }
}

TEST(Topologies, EveryConstantHasItsSourceAndNoneIsAnAllReduceRow) {
  std::set<std::string> published;
  for (const PublishedRow& row : published_rows()) published.insert(row.source);
  int seen = 0;
  for (const auto& [section, group] : constants.values().items()) {
    for (const auto& [name, entries] : group.items()) {
      for (const auto& [key, entry] : entries.items()) {
        if (entry.is_string()) continue;
        ASSERT_TRUE(entry.is_array() && entry.size() == 2 && entry[0].is_number() && entry[1].is_string())
            << section << ' ' << name << ' ' << key;
        const std::string source = entry[1];
        EXPECT_GT(source.size(), 8u) << section << ' ' << name << ' ' << key;
        for (const std::string& row : published) EXPECT_EQ(source.find(row), std::string::npos) << name << ' ' << key;
        for (const char* word : {"all_reduce", "all-reduce", "busbw"}) {
          EXPECT_EQ(source.find(word), std::string::npos) << name << ' ' << key << ": " << source;
        }
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 150);
}

TEST(Topologies, AMachineHoldsNoConstantsOfItsOwn) {
  for (const std::string& name : topology_names()) {
    const Topology topology = named(name);
    for (const LinkClass& link_class : topology.classes) {
      EXPECT_NO_THROW(constants.link_class(link_class.name)) << name << ' ' << link_class.name;
    }
  }
}

TEST(Topologies, APeerBeyondReachIsStagedThroughMemory) {
  const Topology topology = named("dgx-1v");
  Router router(topology, Mover::copy_engine);
  EXPECT_EQ(router.between(0, 1).transport, Transport::peer);
  EXPECT_EQ(router.between(0, 1).links.size(), 1u);
  const Route& far = router.between(0, 5);  // no NVLink joins them
  EXPECT_EQ(far.transport, Transport::staged);
  const auto through = [&](NodeKind kind) {
    return std::ranges::any_of(far.links,
                               [&](int link) { return topology.nodes[topology.links[link].to].kind == kind; });
  };
  EXPECT_TRUE(through(NodeKind::memory));
  EXPECT_TRUE(through(NodeKind::pcie_switch));
  EXPECT_GT(far.latency_seconds, router.between(0, 1).latency_seconds * 10);
}

TEST(Topologies, WithoutNvlinkEverythingGoesOverPcie) {
  const Topology topology = without(named("dgx-a100"), "nvlink");
  Router router(topology, Mover::kernel);
  for (const int link : router.between(0, 7).links) EXPECT_NE(topology.kind(link), LinkKind::nvlink);
  EXPECT_GT(bound(topology).seconds(1 << 30), 5 * bound(named("dgx-a100")).seconds(1 << 30));
  EXPECT_THROW(without(topology, "pcie"), harness::UsageError);
}

TEST(Topologies, MachinesAreJoinedByTheirNetworkAndPartsAreTaken) {
  const Topology two = named("dgx-h100*2");
  EXPECT_EQ(two.size(), 16);
  EXPECT_EQ(two.hosts, 2);
  Router router(two, Mover::kernel);
  EXPECT_EQ(router.between(0, 15).transport, Transport::network);
  EXPECT_EQ(router.between(0, 7).transport, Transport::peer);
  EXPECT_EQ(named("dgx-a100:3").size(), 3);
}

struct Family {
  const char* text;
  int ranks;
  std::size_t links;
};
class Families : public testing::TestWithParam<Family> {};
TEST_P(Families, HaveTheirDevicesAndLinks) {
  const Topology topology = named(GetParam().text);
  EXPECT_EQ(topology.size(), GetParam().ranks);
  EXPECT_EQ(topology.links.size(), GetParam().links);
  Router router(topology, Mover::kernel);
  for (Rank rank = 1; rank < topology.size(); ++rank) EXPECT_FALSE(router.between(0, rank).links.empty());
}
INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values(Family{"ring:8", 8, 16}, Family{"ring:2", 2, 2}, Family{"mesh:3x4", 12, 34},
                                         Family{"torus:4x4", 16, 64}, Family{"full:5", 5, 20},
                                         Family{"switch:6@pcie4", 6, 12}, Family{"fat-tree:2x4", 8, 20},
                                         Family{"fat-tree:2x4x2", 8, 20}, Family{"ring:1", 1, 0}));

TEST(Topologies, WhatIsNoneIsRefusedInOneLine) {
  for (const char* text : {"", "dgx", "constants", "published", "dgx-a100:9", "dgx-a100:0", "dgx-a100:x", "dgx-1v*0",
                           "pcie4-8gpu*2", "ring:0", "ring:x", "ring:", "mesh:4", "mesh:2x2x2", "ring:4@nvlink9",
                           "full:100000", "fat-tree:2", "/", "nowhere.json"}) {
    try {
      named(text);
      ADD_FAILURE() << text << " was accepted";
    } catch (const harness::UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << text;
    }
  }
}

TEST(Topologies, ABrokenFileIsRefusedWithItsFault) {
  const auto refused = [](const char* text, const char* says) {
    try {
      parse_topology(text, "mine", constants);
      ADD_FAILURE() << text << " was accepted";
    } catch (const harness::UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  refused("", "empty");
  refused("{", "no valid JSON");
  refused("hello", "no form");
  refused(R"({"links": []})", "gpus");
  refused(R"({"gpus": 2, "links": [["gpu0", "gpu2", "pcie4"]]})", "gpu2");
  refused(R"({"gpus": 2, "links": [["gpu0", "gpu1", "pcie9"]]})", "pcie9");
  refused(R"({"gpus": 2, "links": [["gpu0", "gpu1", "pcie4", 0]]})", "positive");
  refused(R"({"gpus": 2, "links": [["gpu0", "box1", "pcie4"]]})", "box1");
  refused(R"({"gpus": 2, "links": [], "colour": 1})", "colour");
  refused(R"({"gpus": 0, "links": []})", "gpus: 0 is no whole number from 1 to 4096");
  refused(R"({"gpus": 2, "links": [], "classes": {"a": {"kind": "pcie"}}, "memory": "a"})", "rate");
}

TEST(Topologies, AFileMayBringItsOwnLinks) {
  const Topology topology = parse_topology(
      R"({"gpus": 2, "classes": {"mine": {"kind": "nvlink", "rate": 5e9, "latency": 1e-6}},
          "links": [{"from": "gpu0", "to": "gpu1", "class": "mine", "one_way": true}, ["gpu1", "gpu0", "mine", 2]]})",
      "mine", constants);
  EXPECT_EQ(topology.links.size(), 3u);
  EXPECT_DOUBLE_EQ(topology.rate(0, Mover::kernel), 5e9);
  EXPECT_DOUBLE_EQ(topology.rate(1, Mover::kernel), 1e10);
}

TEST(Bound, IsThePortsOfASwitchAndTheCutOfATree) {
  EXPECT_NEAR(bound(named("switch:8")).seconds(1'000'000'000), 0.175, 1e-9);            // 2 * 7/8 over 10 GB/s
  EXPECT_NEAR(bound(named("fat-tree:2x4x4")).seconds(1'000'000'000), 0.1, 1e-9 + 0.1);  // between port and cut
  // Four devices behind each of two uplinks as wide as one link: the uplink is the cut, one vector each way, but the
  // ports need 2 * 7/8 of one.
  EXPECT_NEAR(bound(named("fat-tree:2x4x4")).seconds(1'000'000'000), 0.175, 1e-9);
  EXPECT_NEAR(bound(named("fat-tree:2x4x8")).seconds(1'000'000'000), 0.2, 1e-9);  // half as wide: now it is
  EXPECT_NEAR(bound(named("ring:8")).seconds(1'000'000'000), 0.0875, 1e-9);       // two links out of each
  EXPECT_EQ(bound(named("ring:1")).seconds(1 << 20), 0);
}

TEST(Bound, OfASwitchThatAddsIsOneVector) {
  const Topology topology = named("dgx-h100");
  const double out_of_one = outgoing_rate(topology, {0});  // over NVLink and PCIe
  EXPECT_GT(out_of_one, topology.rate(0, Mover::copy_engine));
  EXPECT_NEAR(bound(topology).seconds(1 << 30), (1 << 30) / out_of_one, 1e-9);
}

TEST(Relabel, PairsAndCubesHaveABetterOrderThanTheirNumbers) {
  for (const char* name : {"dgx-1v", "4x3090-nvlink"}) {
    const Topology topology = named(name);
    Router router(topology, Mover::copy_engine);
    const auto best = best_ring(router);
    std::set<Rank> once(best.begin(), best.end());
    EXPECT_EQ(once.size(), std::size_t(topology.size())) << name;
    EXPECT_GT(ring_rate(router, best), 1.2 * ring_rate(router, in_order(topology.size()))) << name;
  }
}

TEST(Relabel, KeepsTheNumbersWhereNothingIsBetter) {
  for (const char* name : {"dgx-a100", "dgx-2", "ring:32", "switch:40"}) {
    const Topology topology = named(name);
    Router router(topology, Mover::kernel);
    EXPECT_EQ(best_ring(router), in_order(topology.size())) << name;
  }
}

TEST(Relabel, FindsTheRingThatShufflingHid) {
  for (const int ranks : {9, 14}) {
    const Topology ring = named("ring:" + std::to_string(ranks));
    std::vector<Rank> shuffled;
    for (int at = 0; at < ranks; ++at) shuffled.push_back(at * 5 % ranks);
    const Topology hidden = reordered(ring, shuffled);
    Router router(hidden, Mover::kernel);
    const double rate = ring_rate(router, best_ring(router));
    EXPECT_GT(rate, ring_rate(router, in_order(ranks)));
    if (ranks <= 10) {
      EXPECT_DOUBLE_EQ(rate, 10e9);
    }
  }
}

TEST(NcclModel, LaysRingsOverAllNvlinksOfACube) {
  const NcclRings rings = nccl_rings(named("dgx-1v"));
  EXPECT_TRUE(rings.over_nvlink);
  EXPECT_NEAR(rings.rate, 6 * 21.7e9, 1e6);
  EXPECT_NEAR(nccl_rings(named("4xv100-mesh")).rate, 6 * 21.7e9, 1e6);
  EXPECT_FALSE(nccl_rings(named("8xa100-pcie-nvlink")).over_nvlink);
}

TEST(NcclModel, ChoosesByBytesAndNeverFallsWithThem) {
  for (const std::string& name : topology_names()) {
    const NcclModel model(named(name), constants);
    const std::string small = model.forecast(1024).algorithm;
    EXPECT_TRUE(small.find("LL") != std::string::npos || small.starts_with("nvls")) << name << ' ' << small;
    double last = 0;
    for (std::size_t bytes = 1 << 20; bytes <= std::size_t(16) << 30; bytes *= 4) {
      const double seconds = model.forecast(bytes).seconds;
      EXPECT_GT(seconds, last) << name << ' ' << bytes;
      last = seconds;
    }
    EXPECT_GE(model.forecast(64, {"", true}).seconds, model.forecast(64).seconds) << name;
  }
  EXPECT_EQ(NcclModel(named("dgx-h100"), constants).forecast(1 << 30).algorithm, "nvls Simple");
  EXPECT_THROW(NcclModel(named("dgx-a100"), constants).forecast(64, {"nvls", false}), harness::Error);
}

TEST(NcclModel, IsNeverFasterThanTheBound) {
  for (const std::string& name : topology_names()) {
    const Topology topology = named(name);
    const Bound limit = bound(topology);
    const NcclModel model(topology, constants);
    for (const std::size_t bytes : {std::size_t(1) << 20, std::size_t(1) << 34}) {
      EXPECT_GE(model.forecast(bytes).seconds, limit.seconds(bytes)) << name << ' ' << bytes;
    }
  }
}

TEST(Published, ErrorIsTheMeanFactor) {
  const std::vector<double> said = {2, 1};
  const std::vector<double> measured = {1, 2};
  EXPECT_NEAR(geometric_error(said, measured), 1, 1e-12);
  EXPECT_EQ(geometric_error(said, said), 0);
}

TEST(Published, ScalingTouchesLatenciesAndRatesAlone) {
  const Constants other = scaled(constants, 2, 3);
  EXPECT_DOUBLE_EQ(other("software", "nccl", "nvls"), 2 * constants("software", "nccl", "nvls"));
  EXPECT_DOUBLE_EQ(other("links", "nvlink3", "kernel"), 3 * constants("links", "nvlink3", "kernel"));
  EXPECT_DOUBLE_EQ(other("software", "nccl", "tree_share"), constants("software", "nccl", "tree_share"));
  EXPECT_DOUBLE_EQ(other("software", "nccl", "fill_from"), constants("software", "nccl", "fill_from"));
  EXPECT_DOUBLE_EQ(other("software", "nccl", "fill_doublings"), constants("software", "nccl", "fill_doublings"));
  EXPECT_DOUBLE_EQ(other("hosts", "amd-rome", "root_overhead"), constants("hosts", "amd-rome", "root_overhead"));
}

// The figures that the README quotes are not allowed to get worse unnoticed.
TEST(Published, TheSimulatorStaysAsNearAsItIsSaidToBe) {
  std::vector<PublishedRow> rows;
  for (const PublishedRow& row : published_rows()) {
    if (!row.doubtful) rows.push_back(row);
  }
  std::vector<double> measured;
  for (const PublishedRow& row : rows) measured.push_back(row.seconds);
  EXPECT_GT(rows.size(), 35u);
  EXPECT_LT(geometric_error(simulate_rows(rows, constants), measured), 0.12);
}

}  // namespace
}  // namespace allreduce
