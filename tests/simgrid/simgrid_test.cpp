// SPDX-License-Identifier: Apache-2.0
// The simulator against SimGrid (Casanova et al., "Versatile, scalable, and accurate simulation of distributed
// applications and platforms", 2014), which shares links max-min fairly too once its corrections for TCP are off: whole
// schedules on random trees. SimGrid lets a flow's latency weigh on its share of a link, so that is kept out of its
// network and spent after each copy.
#include <gtest/gtest.h>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <set>

#include "allreduce/algorithms.hpp"
#include "allreduce/simulate.hpp"

namespace allreduce {
namespace {

namespace s4u = simgrid::s4u;

constexpr int trees = 60;
constexpr double tolerance = 1e-6;  // relative: we count whole picoseconds, SimGrid works with rounded sums of seconds

// Begins as soon as all that it waits for has ended.
template <typename Activity>
void start(const Activity& activity) {
  if constexpr (requires { activity->vetoable_start(); }) {
    activity->vetoable_start();  // until SimGrid 3.34
  } else {
    activity->start();
  }
}

template <typename Engine>
s4u::NetZone* make_zone(Engine& engine) {
  if constexpr (requires { engine.get_netzone_root()->add_netzone_full("zone"); }) {
    return engine.get_netzone_root()->add_netzone_full("zone");
  } else {
    return s4u::create_full_zone("zone");  // until SimGrid 3.36
  }
}

class Random {
 public:
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(engine_); }
  double between(double low, double high) {  // as likely in each decade
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(engine_));
  }

 private:
  std::mt19937_64 engine_{1};
};

// Switches joined to a tree, with devices as leaves; every link of a rate and a latency of its own.
Topology random_tree(Random& random) {
  Topology topology;
  topology.memory_rate = random.between(1e9, 1e12);
  const auto join = [&](int one, int other) {
    LinkClass link{.name = "link" + std::to_string(topology.links.size()), .kind = LinkKind::nvlink};
    link.rate[0] = link.rate[1] = random.between(1e8, 1e10);
    link.latency_seconds = random.between(1e-7, 1e-5);
    topology.join(one, other, topology.add_class(link));
  };
  const int switches = random.between(1, 6), devices = random.between(2, 9);
  for (int number = 0; number < switches; ++number) {
    const int node = topology.add_node("switch" + std::to_string(number), NodeKind::nvswitch);
    if (number > 0) join(node, random.between(0, number - 1));
  }
  for (int rank = 0; rank < devices; ++rank) {
    topology.ranks.push_back(topology.add_node("gpu" + std::to_string(rank), NodeKind::gpu));
    join(topology.ranks.back(), random.between(0, switches - 1));
  }
  return topology;
}

// A schedule on a tree of its own within SimGrid's one platform.
class Replay {
 public:
  Replay(s4u::NetZone& zone, const std::string& name, const Schedule& schedule, Router& router, std::size_t count)
      : schedule_(schedule), ends_(schedule.ops.size()) {
    const Topology& topology = router.topology();
    std::vector<s4u::Link*> links;
    for (std::size_t link = 0; link < topology.links.size(); ++link) {
      links.push_back(zone.create_link(name + "/" + std::to_string(link),
                                       topology.rate(static_cast<int>(link), Mover::copy_engine)));
    }
    std::vector<s4u::Host*> hosts;
    for (int rank = 0; rank < topology.size(); ++rank) {
      hosts.push_back(zone.create_host(name + "/" + topology.nodes[topology.ranks[rank]].name, topology.memory_rate));
    }
    for (int from = 0; from < topology.size(); ++from) {
      for (int to = 0; to < topology.size(); ++to) {
        if (from == to) continue;
        std::vector<s4u::LinkInRoute> way;
        for (const int link : router.between(from, to).links) way.emplace_back(links[link]);
        zone.add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr, way, false);
      }
    }
    const auto pieces = first_pieces(schedule);
    std::vector<s4u::ExecPtr> last(topology.size());  // of each rank's stream
    for (std::size_t id = 0; id < schedule.ops.size(); ++id) {
      const Op& op = schedule.ops[id];
      const auto edge = [&](int chunk) { return boundary(schedule, count, chunk, sizeof(float)); };
      const double bytes = static_cast<double>((edge(pieces[id] + op.to.count) - edge(pieces[id])) * sizeof(float));
      std::set<s4u::ExecPtr> before;
      for (const OpId other : op.after) before.insert(ends_[other]);
      if (last[op.to.rank]) before.insert(last[op.to.rank]);
      const auto compute = [&](double touched) {
        return s4u::Exec::init()->set_flops_amount(touched)->set_host(hosts[op.to.rank]);
      };
      if (op.from.rank == op.to.rank) {
        const auto work = compute((op.kind == Kind::reduce ? 3 : 2) * bytes);
        for (const auto& other : before) other->add_successor(work);
        begins_.emplace_back([work] { start(work); });
        ends_[id] = work;
      } else {
        const auto copy = s4u::Comm::sendto_init(hosts[op.from.rank], hosts[op.to.rank]);
        copy->set_payload_size(static_cast<std::uint64_t>(bytes));
        for (const auto& other : before) other->add_successor(copy);
        const auto latency = compute(router.between(op.from.rank, op.to.rank).latency_seconds * topology.memory_rate);
        copy->add_successor(latency);
        begins_.emplace_back([copy] { start(copy); });
        begins_.emplace_back([latency] { start(latency); });
        ends_[id] = latency;
      }
      last[op.to.rank] = ends_[id];
    }
  }

  void begin() {
    for (const auto& begin : begins_) begin();
  }
  double seconds() const {
    double end = 0;
    for (const auto& op : ends_) end = std::max(end, op->get_finish_time());
    return end;
  }

 private:
  const Schedule& schedule_;
  std::vector<s4u::ExecPtr> ends_;
  std::vector<std::function<void()>> begins_;
};

TEST(SimGrid, TakesAsLongForWholeSchedulesOnRandomTrees) {
  std::string words[] = {"test", "--log=root.threshold:critical"};
  char* arguments[] = {words[0].data(), words[1].data(), nullptr};
  int count = 2;
  s4u::Engine engine(&count, arguments);
  for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
                              "network/weight-S:0", "maxmin/precision:1e-9", "surf/precision:1e-12"}) {
    s4u::Engine::set_config(setting);
  }
  auto* zone = make_zone(engine);

  struct Case {
    std::string name;
    Topology topology;
    Schedule schedule;
    std::size_t count;
    double ours = 0;
    std::unique_ptr<Router> router = nullptr;
    std::unique_ptr<Replay> replay = nullptr;
  };
  Random random;
  std::vector<Case> cases;
  for (int number = 0; number < trees; ++number) {
    const auto catalogue = algorithms();
    const Algorithm& algorithm = catalogue[random.between(0, static_cast<int>(catalogue.size()) - 1)];
    Topology topology = random_tree(random);
    Schedule schedule = algorithm.build({.ranks = topology.size(), .pieces = random.between(1, 3)});
    const auto elements = static_cast<std::size_t>(random.between(1e4, 1e7));
    cases.push_back({std::to_string(number) + " " + schedule.name, std::move(topology), std::move(schedule), elements});
  }
  for (Case& one : cases) {
    one.router = std::make_unique<Router>(one.topology, Mover::copy_engine);
    one.ours = simulate(one.schedule, *one.router, {one.count, sizeof(float)}, {}).seconds();
    one.replay = std::make_unique<Replay>(*zone, one.name, one.schedule, *one.router, one.count);
  }
  zone->seal();
  for (const Case& one : cases) one.replay->begin();
  engine.run();
  for (const Case& one : cases) EXPECT_NEAR(one.ours / one.replay->seconds(), 1, tolerance) << one.name;
}

}  // namespace
}  // namespace allreduce
