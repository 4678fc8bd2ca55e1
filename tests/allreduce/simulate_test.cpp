// SPDX-License-Identifier: Apache-2.0
// The fluid network and the simulator against closed forms, which hold where flows are disjoint or symmetric.
#include "allreduce/simulate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "allreduce/algorithms.hpp"
#include "allreduce/bound.hpp"
#include "allreduce/fluid.hpp"
#include "allreduce/topologies.hpp"
#include "harness/error.hpp"
#include "tests/allreduce/common.hpp"

namespace allreduce {
namespace {

double time_of(const Topology& topology, const Schedule& schedule, std::size_t bytes, const StreamsCosts& costs = {},
               Launch launch = Launch::graph) {
  Router router(topology, Mover::copy_engine);
  return simulate(schedule, router, {bytes / 4, 4, launch}, costs).seconds();
}

TEST(Fluid, SharesAsTheTextbookSays) {
  // Bertsekas and Gallager's kind of example: three flows over two links of 1 and 2, one of them over both.
  Fluid fluid({1, 2});
  const std::vector<int> both = {0, 1};
  const std::vector<int> first = {0};
  const std::vector<int> second = {1};
  const std::vector<double> ones = {1, 1};
  const auto a = fluid.start(both, ones, 0);
  const auto b = fluid.start(first, ones, 1);
  const auto c = fluid.start(second, ones, 2);
  fluid.solve();
  EXPECT_DOUBLE_EQ(fluid.rate(a), 0.5);
  EXPECT_DOUBLE_EQ(fluid.rate(b), 0.5);
  EXPECT_DOUBLE_EQ(fluid.rate(c), 1.5);
  EXPECT_EQ(fluid.bottleneck(a), 0);
  EXPECT_EQ(fluid.bottleneck(c), 1);
  fluid.end(b);
  EXPECT_EQ(fluid.solve().size(), 2u);
  EXPECT_DOUBLE_EQ(fluid.rate(a), 1);
  EXPECT_DOUBLE_EQ(fluid.rate(c), 1);
}

TEST(Fluid, AWeightTakesThatMuchMoreOfALink) {
  Fluid fluid({12});
  const std::vector<int> link = {0};
  const std::vector<double> heavy = {2};
  const std::vector<double> light = {1};
  const auto a = fluid.start(link, heavy, 0);
  const auto b = fluid.start(link, light, 1);
  fluid.solve();
  EXPECT_DOUBLE_EQ(fluid.rate(a), 4);
  EXPECT_DOUBLE_EQ(fluid.rate(b), 4);
}

TEST(Fluid, LeavesAloneWhatIsNotJoined) {
  Fluid fluid({1, 1});
  const std::vector<int> first = {0};
  const std::vector<int> second = {1};
  const std::vector<double> one = {1};
  fluid.start(first, one, 0);
  fluid.solve();
  const auto b = fluid.start(second, one, 1);
  const auto changed = fluid.solve();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0], b);
}

TEST(Simulate, RingTakesItsTextbookTime) {
  for (const int ranks : {2, 3, 8, 16}) {
    const Topology topology = find_topology("ring:" + std::to_string(ranks), constants);
    const double bytes = 4096.0 * 64 * ranks;
    const double steps = 2.0 * (ranks - 1);
    EXPECT_NEAR(time_of(topology, ring({ranks}), static_cast<std::size_t>(bytes)),
                steps * (bytes / ranks / 10e9 + 1e-6), 1e-11 * steps)
        << ranks;
  }
}

TEST(Simulate, ParameterServerIsHeldBackByItsServer) {
  const Topology topology = find_topology("switch:5", constants);
  // Four vectors in, one after another in the server's stream; out, all at once over its one link.
  EXPECT_NEAR(time_of(topology, parameter_server({5}), 40'000'000), 4 * (4e-3 + 2e-6) + 16e-3 + 2e-6, 1e-9);
}

TEST(Simulate, TreeTakesItsSteps) {
  const Topology topology = find_topology("full:8", constants);
  EXPECT_NEAR(time_of(topology, tree({8}), 10'000'000), 6 * (1e-3 + 1e-6), 1e-9);
}

TEST(Simulate, CopiesThatShareALinkTakeTurnsFairly) {
  // Ring order 0, 2, 1, 3 over two leaves with an uplink as wide as one link: two hops each way share it.
  const Topology tree_of_two = find_topology("fat-tree:2x2x2", constants);
  const double near = time_of(tree_of_two, ring({4}), 40'000'000);
  const double far = time_of(reordered(tree_of_two, {0, 2, 1, 3}), ring({4}), 40'000'000);
  EXPECT_NEAR(far / near, 2, 0.01);
}

TEST(Simulate, EndsWithItsLastOpAlsoWhenThatSpeedsUp) {
  // One piece to rank 1 and two to rank 2 share rank 0's link, until the first has arrived.
  Schedule schedule;
  schedule.shape.ranks = 3;
  schedule.chunks = 3;
  schedule.ops.push_back({Kind::copy, {0, Space::data, 0, 1}, {1, Space::data, 0, 1}, {}});
  schedule.ops.push_back({Kind::copy, {0, Space::data, 1, 2}, {2, Space::data, 1, 2}, {}});
  const Topology topology = find_topology("switch:3", constants);
  EXPECT_NEAR(time_of(topology, schedule, 30'720'000), 3072e-6 + 2e-6, 1e-9);
}

TEST(Simulate, BothWaysOverPcieAreLessThanTwiceOne) {
  const Topology topology = find_topology("pcie4-4gpu", constants);
  const LinkClass pcie = constants.link_class("pcie4");
  ASSERT_GT(pcie.both[0], 0);
  // Two ranks: each sends and receives half at a time.
  const double seconds = time_of(first_ranks(topology, 2), ring({2}), 1 << 28);
  EXPECT_GT(seconds, (1 << 28) / (pcie.both[0] / 2));
}

TEST(Simulate, CostsOfTheSoftwareAddUp) {
  const Topology topology = find_topology("ring:4", constants);
  const Schedule schedule = ring({4});
  const double bare = time_of(topology, schedule, 4096);
  EXPECT_NEAR(time_of(topology, schedule, 4096, {.start_copy = 1e-5}), bare + 6e-5, 1e-11);
  EXPECT_NEAR(time_of(topology, schedule, 4096, {.start_reduce = 1e-5}), bare + 3e-5, 1e-11);
  // The host hides behind the devices until it is the slower of the two.
  EXPECT_NEAR(time_of(topology, schedule, 4096, {.issue_copy = 1e-9}, Launch::eager), bare, 1e-11);
  EXPECT_NEAR(time_of(topology, schedule, 4096, {.issue_copy = 1e-3}, Launch::eager), 24e-3, 1e-11);
  EXPECT_NEAR(time_of(topology, schedule, 4096, {.graph_launch = 1}), 1, 1e-11);
}

TEST(Simulate, NoAlgorithmBeatsTheBoundAnywhere) {
  for (const std::string& name : topology_names()) {
    const Topology topology = find_topology(name, constants);
    if (topology.size() > 16) continue;
    const Bound limit = bound(topology);
    for (const Algorithm& algorithm : algorithms()) {
      for (const std::size_t bytes : {std::size_t(1024), std::size_t(1) << 26}) {
        const double seconds = time_of(topology, algorithm.build({topology.size()}), bytes, constants.streams());
        EXPECT_GE(seconds, limit.seconds(bytes)) << name << ' ' << algorithm.name << ' ' << bytes;
        EXPECT_LT(seconds, 100) << name;
      }
    }
  }
}

TEST(Simulate, TheSameTwiceIsTheSameToThePicosecond) {
  const Topology topology = find_topology("dgx-1v", constants);
  EXPECT_EQ(time_of(topology, ring({8}), 1 << 24), time_of(topology, ring({8}), 1 << 24));
}

TEST(Simulate, NamesTheBusiestLinkAndWhatTheTimeGoesInto) {
  const Topology topology = find_topology("pcie4-8gpu-switch", constants);
  Router router(topology, Mover::copy_engine);
  const Timeline large = simulate(ring({8}), router, {1 << 26, 4, Launch::graph}, constants.streams());
  ASSERT_FALSE(large.loads.empty());
  for (const LinkLoad& load : large.loads) {
    EXPECT_LE(load.utilisation, 1 + 1e-9);
    EXPECT_LE(load.utilisation, large.loads[0].utilisation);
  }
  EXPECT_NE(large.reason.find("bytes over"), std::string::npos) << large.reason;
  const Timeline tiny = simulate(ring({8}), router, {16, 4, Launch::eager}, constants.streams());
  EXPECT_NE(tiny.reason.find("host issues"), std::string::npos) << tiny.reason;
}

TEST(Simulate, ASymmetricRingOfManyRanksStaysCheap) {
  const Topology topology = find_topology("ring:128", constants);
  const double bytes = 4.0 * 128 * 4096;
  EXPECT_NEAR(time_of(topology, ring({128}), static_cast<std::size_t>(bytes)), 254 * (bytes / 128 / 10e9 + 1e-6), 1e-8);
}

TEST(Simulate, ASizeThatDoesNotFitIsRefused) {
  EXPECT_THROW(time_of(find_topology("ring:4", constants), ring({3}), 64), harness::Error);
}

}  // namespace
}  // namespace allreduce
