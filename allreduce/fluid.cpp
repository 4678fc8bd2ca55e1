// SPDX-License-Identifier: Apache-2.0
#include "allreduce/fluid.hpp"

#include <algorithm>
#include <limits>
#include <queue>

namespace allreduce {

Fluid::Fluid(std::vector<double> capacities) {
  for (const double capacity : capacities) resources_.push_back({capacity});
}

Fluid::Flow Fluid::start(std::span<const int> resources, std::span<const double> weights, std::int64_t tag) {
  Flow flow;
  if (unused_.empty()) {
    flow = static_cast<Flow>(flows_.size());
    flows_.emplace_back();
  } else {
    flow = unused_.back();
    unused_.pop_back();
  }
  State& state = flows_[flow];
  state.resources = resources;
  state.weights = weights;
  state.tag = tag;
  state.rate = resources.empty() ? std::numeric_limits<double>::infinity() : 0;
  state.positions.resize(resources.size());
  for (std::size_t hop = 0; hop < resources.size(); ++hop) {
    auto& members = resources_[resources[hop]].members;
    state.positions[hop] = static_cast<int>(members.size());
    members.push_back({flow, static_cast<int>(hop)});
    touched_.push_back(resources[hop]);
  }
  return flow;
}

void Fluid::end(Flow flow) {
  State& state = flows_[flow];
  for (std::size_t hop = 0; hop < state.resources.size(); ++hop) {
    auto& members = resources_[state.resources[hop]].members;
    const int position = state.positions[hop];
    members[position] = members.back();
    flows_[members[position].flow].positions[members[position].hop] = position;
    members.pop_back();
    if (!members.empty()) touched_.push_back(state.resources[hop]);
  }
  unused_.push_back(flow);
}

void Fluid::fix(Flow flow, double rate, int bottleneck) {
  State& state = flows_[flow];
  state.fixed = solves_;
  state.bottleneck = bottleneck;
  if (state.rate == rate) return;
  state.rate = rate;
  changed_.push_back(flow);
}

const std::vector<Fluid::Flow>& Fluid::solve() {
  changed_.clear();
  ++solves_;
  for (const int resource : touched_) touch(resource);
  touched_.clear();
  return changed_;
}

// Finds what is joined to a resource through flows, and shares it out.
void Fluid::touch(int resource) {
  if (resources_[resource].seen == solves_) return;
  component_.clear();
  joined_ = {resource};
  resources_[resource].seen = solves_;
  for (std::size_t at = 0; at < joined_.size(); ++at) {
    for (const Member& member : resources_[joined_[at]].members) {
      State& state = flows_[member.flow];
      if (state.seen == solves_) continue;
      state.seen = solves_;
      component_.push_back(member.flow);
      for (const int other : state.resources) {
        if (resources_[other].seen == solves_) continue;
        resources_[other].seen = solves_;
        joined_.push_back(other);
      }
    }
  }
  if (component_.size() == 1) {  // alone: no heap is needed
    const State& state = flows_[component_[0]];
    double rate = std::numeric_limits<double>::infinity();
    int bottleneck = -1;
    for (std::size_t hop = 0; hop < state.resources.size(); ++hop) {
      const double share = resources_[state.resources[hop]].capacity / state.weights[hop];
      if (share < rate) {
        rate = share;
        bottleneck = state.resources[hop];
      }
    }
    fix(component_[0], rate, bottleneck);
    return;
  }
  fill();
}

// Raises all rates together; at each resource that is used up, those of its flows stand.
void Fluid::fill() {
  using Share = std::pair<double, int>;
  std::priority_queue<Share, std::vector<Share>, std::greater<>> next;
  for (const int id : joined_) {
    Resource& resource = resources_[id];
    resource.left = resource.capacity;
    resource.weight = 0;
    for (const Member& member : resource.members) resource.weight += flows_[member.flow].weights[member.hop];
    if (!resource.members.empty()) next.emplace(resource.left / resource.weight, id);
  }
  std::size_t open = component_.size();
  while (open > 0 && !next.empty()) {
    const auto [share, id] = next.top();
    next.pop();
    Resource& resource = resources_[id];
    bool waits = false;
    for (const Member& member : resource.members) waits = waits || flows_[member.flow].fixed != solves_;
    if (!waits) continue;
    const double now = std::max(0.0, resource.left) / resource.weight;
    if (now > share) {  // others took less than their share since
      next.emplace(now, id);
      continue;
    }
    for (const Member& member : resource.members) {
      State& state = flows_[member.flow];
      if (state.fixed == solves_) continue;
      fix(member.flow, share, id);
      --open;
      for (std::size_t hop = 0; hop < state.resources.size(); ++hop) {
        Resource& other = resources_[state.resources[hop]];
        other.left -= share * state.weights[hop];
        other.weight -= state.weights[hop];
      }
    }
  }
}

}  // namespace allreduce
