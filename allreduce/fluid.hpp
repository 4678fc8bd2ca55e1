// SPDX-License-Identifier: Apache-2.0
// Flows that share resources max-min fairly (Bertsekas and Gallager, "Data Networks", 1992, section 6.5.2): no flow
// can be given more without taking from one that has less. When flows come or go, only those that are joined to them
// through shared resources are solved again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace allreduce {

class Fluid {
 public:
  using Flow = int;

  // Units per second of each resource.
  explicit Fluid(std::vector<double> capacities);

  // A flow that needs weights[i] units of resources[i] for each of its own; both must outlive it. `tag` is the
  // caller's. Its rate stands after the next solve().
  Flow start(std::span<const int> resources, std::span<const double> weights, std::int64_t tag);
  void end(Flow flow);

  // Shares anew what was touched since the last time; gives the flows whose rate changed.
  const std::vector<Flow>& solve();

  double rate(Flow flow) const { return flows_[flow].rate; }
  std::int64_t tag(Flow flow) const { return flows_[flow].tag; }
  int bottleneck(Flow flow) const { return flows_[flow].bottleneck; }  // the resource that holds it back

 private:
  struct Member {
    Flow flow;
    int hop;
  };
  struct Resource {
    double capacity;
    std::vector<Member> members = {};
    double left = 0, weight = 0;  // while solving: what is not given yet, and to how much it must be shared out
    std::int64_t seen = -1;
  };
  struct State {
    std::span<const int> resources;
    std::span<const double> weights;
    std::vector<int> positions;  // among the members of each resource
    std::int64_t tag;
    double rate = 0;
    int bottleneck = -1;
    std::int64_t seen = -1, fixed = -1;
  };
  void touch(int resource);
  void fix(Flow flow, double rate, int bottleneck);
  void fill();

  std::vector<Resource> resources_;
  std::vector<State> flows_;
  std::vector<Flow> unused_, changed_, component_;
  std::vector<int> touched_, joined_;
  std::int64_t solves_ = 0;
};

}  // namespace allreduce
