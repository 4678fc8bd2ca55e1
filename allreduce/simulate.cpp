// SPDX-License-Identifier: Apache-2.0
#include "allreduce/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "allreduce/fluid.hpp"
#include "harness/error.hpp"
#include "harness/text.hpp"

namespace allreduce {

namespace {

constexpr double picoseconds_per_second = 1e12;
std::int64_t picoseconds(double seconds) { return std::llround(seconds * picoseconds_per_second); }

class Simulation {
 public:
  Simulation(const Schedule& schedule, Router& router, const Workload& workload, const StreamsCosts& costs)
      : schedule_(schedule),
        pieces_(first_pieces(schedule)),
        topology_(router.topology()),
        router_(router),
        workload_(workload),
        costs_(costs),
        fluid_(router.capacities()),
        link_bytes_(topology_.links.size()),
        recent_(topology_.size()) {
    if (schedule.shape.ranks != topology_.size()) {
      throw harness::Error(schedule.name + " is for " + std::to_string(schedule.shape.ranks) + " ranks, " +
                           topology_.name + " has " + std::to_string(topology_.size()));
    }
  }

  Timeline run() {
    link_up();
    for (OpId id = 0; id < count(); ++id) {
      if (missing_[id] == 0) become_ready(id, 0);
    }
    while (!events_.empty()) {
      now_ = events_.top().time;
      while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        switch (event.kind) {
          case Event::begin: begin(event.id); break;
          case Event::flowed: flowed(event); break;
          case Event::done: done(event.id); break;
        }
      }
      share();
    }
    return finish();
  }

 private:
  struct Event {
    std::int64_t time;
    enum Kind : std::uint8_t { begin, flowed, done } kind;
    std::int32_t id;  // an op; of `flowed` a flow
    std::int32_t version = 0;
    bool operator>(const Event& other) const { return time > other.time; }
  };
  struct Recent {
    Rank from = -1;
    const Route* route = nullptr;
  };
  struct Moving {
    OpId op = -1;
    double left = 0;  // bytes
    double rate = 0;
    std::int64_t since = 0;
    std::int32_t version = 0;
  };

  OpId count() const { return static_cast<OpId>(schedule_.ops.size()); }

  // Who follows whom: by dependency, and in the stream of the rank that an op writes to, as the engine issues them.
  void link_up() {
    const auto ops = count();
    missing_.assign(ops, 0);
    gate_.assign(ops, -1);
    ended_.assign(ops, 0);
    held_by_.assign(ops, -1);
    next_in_lane_.assign(ops, -1);
    first_follower_.assign(ops + 1, 0);
    std::vector<OpId> last(schedule_.shape.ranks, -1);
    for (OpId id = 0; id < ops; ++id) {
      const Op& op = schedule_.ops[id];
      for (const OpId before : op.after) ++first_follower_[before + 1];
      missing_[id] = static_cast<std::int32_t>(op.after.size());
      OpId& previous = last[op.to.rank];
      if (previous >= 0) {
        next_in_lane_[previous] = id;
        ++missing_[id];
      }
      previous = id;
    }
    for (OpId id = 0; id < ops; ++id) first_follower_[id + 1] += first_follower_[id];
    followers_.resize(first_follower_[ops]);
    std::vector<std::int64_t> at(first_follower_.begin(), first_follower_.end() - 1);
    for (OpId id = 0; id < ops; ++id) {
      for (const OpId before : schedule_.ops[id].after) followers_[at[before]++] = id;
    }
  }

  double bytes_of(OpId id) const {
    const auto edge = [&](int chunk) { return boundary(schedule_, workload_.count, chunk, workload_.element_bytes); };
    const int first = pieces_[id];
    return static_cast<double>((edge(first + schedule_.ops[id].to.count) - edge(first)) * workload_.element_bytes);
  }

  void become_ready(OpId id, std::int64_t at) {
    const Op& op = schedule_.ops[id];
    const bool across = op.from.rank != op.to.rank;
    const std::int64_t start = at + picoseconds(across ? costs_.start_copy : costs_.start_reduce);
    if (across) {
      events_.push({start, Event::begin, id});
      return;
    }
    // Within a device: a reduce reads two vectors and writes one, a copy reads one and writes one.
    const double touched = (op.kind == Kind::reduce ? 3 : 2) * bytes_of(id);
    const double seconds = topology_.memory_rate > 0 ? touched / topology_.memory_rate : 0;
    events_.push({start + picoseconds(seconds), Event::done, id});
  }

  // A rank often receives from the same one again: its last route is kept at hand.
  const Route& route_of(const Op& op) {
    Recent& recent = recent_[op.to.rank];
    if (recent.from != op.from.rank) recent = {op.from.rank, &router_.between(op.from.rank, op.to.rank)};
    return *recent.route;
  }

  void begin(OpId id) {
    const Op& op = schedule_.ops[id];
    const Route& route = route_of(op);
    const double bytes = bytes_of(id);
    for (std::size_t hop = 0; hop < route.links.size(); ++hop)
      link_bytes_[route.links[hop]] += bytes * route.weights[hop];
    if (bytes <= 0) {
      events_.push({now_ + picoseconds(route.latency_seconds), Event::done, id});
      return;
    }
    const Fluid::Flow flow = fluid_.start(route.resources, route.weights, id);
    if (flow >= static_cast<int>(moving_.size())) moving_.resize(flow + 1);
    Moving& moving = moving_[flow];
    moving = {id, bytes, 0, now_, moving.version + 1};
    changed_ = true;
  }

  void flowed(const Event& event) {
    Moving& moving = moving_[event.id];
    if (moving.version != event.version) return;  // its rate changed since
    ++moving.version;
    held_by_[moving.op] = fluid_.bottleneck(event.id);
    fluid_.end(event.id);
    changed_ = true;
    const std::int64_t latency = picoseconds(route_of(schedule_.ops[moving.op]).latency_seconds);
    if (latency == 0) {
      done(moving.op);
    } else {
      events_.push({now_ + latency, Event::done, moving.op});
    }
  }

  void done(OpId id) {
    ended_[id] = now_;
    last_ = id;
    if (next_in_lane_[id] >= 0) release(next_in_lane_[id], id, now_);
    for (std::int64_t at = first_follower_[id]; at < first_follower_[id + 1]; ++at) {
      const OpId follower = followers_[at];
      const bool same_lane = schedule_.ops[follower].to.rank == schedule_.ops[id].to.rank;
      release(follower, id, now_ + (same_lane ? 0 : picoseconds(costs_.wait)));
    }
  }

  // `gate_` keeps what an op waited for longest; until it is ready, `ended_` holds when that was.
  void release(OpId id, OpId by, std::int64_t at) {
    if (gate_[id] < 0 || at >= ended_[id]) {
      ended_[id] = at;
      gate_[id] = by;
    }
    if (--missing_[id] == 0) become_ready(id, ended_[id]);
  }

  void share() {
    if (!changed_) return;
    changed_ = false;
    for (const Fluid::Flow flow : fluid_.solve()) {
      Moving& moving = moving_[flow];
      moving.left -= moving.rate * static_cast<double>(now_ - moving.since) / picoseconds_per_second;
      moving.left = std::max(0.0, moving.left);
      moving.rate = fluid_.rate(flow);
      moving.since = now_;
      ++moving.version;
      const auto duration = static_cast<std::int64_t>(std::ceil(moving.left / moving.rate * picoseconds_per_second));
      events_.push({now_ + duration, Event::flowed, flow, moving.version});
    }
  }

  double host_seconds() const {
    if (workload_.launch == Launch::graph) {
      return costs_.graph_launch + costs_.graph_node * static_cast<double>(schedule_.ops.size());
    }
    double seconds = 0;
    for (const Op& op : schedule_.ops) {
      if (op.from.rank == op.to.rank) {
        seconds += costs_.issue_reduce;
      } else {
        const bool staged = router_.between(op.from.rank, op.to.rank).transport == Transport::staged;
        seconds += staged ? costs_.issue_staged_copy : costs_.issue_copy;
      }
      for (const OpId before : op.after) {
        if (schedule_.ops[before].to.rank != op.to.rank) seconds += costs_.issue_wait;
      }
    }
    return seconds;
  }

  Timeline finish() {
    Timeline timeline;
    const std::int64_t devices = last_ < 0 ? 0 : ended_[last_];  // an event that no longer counts may come later
    const std::int64_t host = picoseconds(host_seconds());
    timeline.picoseconds = std::max(devices, host);
    for (std::size_t link = 0; link < link_bytes_.size(); ++link) {
      if (link_bytes_[link] <= 0) continue;
      const double could = topology_.rate(static_cast<int>(link), Mover::copy_engine) * timeline.seconds();
      timeline.loads.push_back({static_cast<int>(link), link_bytes_[link], link_bytes_[link] / could});
    }
    std::ranges::stable_sort(timeline.loads, std::greater<>(), &LinkLoad::utilisation);
    timeline.reason = host > devices ? "the host issues ops more slowly than the devices do them"
                                     : critical_path(timeline.picoseconds);
    return timeline;
  }

  // Back from the op that ended last over what each waited for; what the time went into, the most first.
  std::string critical_path(std::int64_t total) const {
    std::map<std::string, std::int64_t> parts;
    for (OpId id = last_; id >= 0; id = gate_[id]) {
      const Op& op = schedule_.ops[id];
      const std::int64_t since = gate_[id] < 0 ? 0 : ended_[gate_[id]];
      const std::int64_t all = ended_[id] - since;
      if (op.from.rank == op.to.rank) {
        const std::int64_t fixed = std::min(all, picoseconds(costs_.start_reduce));
        parts["starting kernels"] += fixed;
        parts[op.kind == Kind::reduce ? "reducing" : "copying within a device"] += all - fixed;
        continue;
      }
      const double latency = router_.between(op.from.rank, op.to.rank).latency_seconds;
      const std::int64_t fixed = std::min(all, picoseconds(costs_.start_copy + latency));
      parts["starting copies, latency"] += fixed;
      if (held_by_[id] >= 0) {
        const Link& link = topology_.links[router_.link_of(held_by_[id])];
        parts["bytes over " + topology_.classes[link.link_class].name] += all - fixed;
      } else {
        parts["starting copies, latency"] += all - fixed;
      }
    }
    std::vector<std::pair<std::int64_t, std::string>> sorted;
    for (const auto& [what, time] : parts) sorted.emplace_back(time, what);
    std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& part) { return part.first; });
    std::string text;
    for (const auto& [time, what] : sorted) {
      const double share = total > 0 ? static_cast<double>(time) / static_cast<double>(total) : 0;
      if (share < 0.05) continue;
      if (!text.empty()) text += ", ";
      text.append(std::to_string(std::lround(share * 100))).append("% ").append(what);
    }
    return text;
  }

  const Schedule& schedule_;
  const std::vector<int> pieces_;  // of an op: the first piece of the vector that it is about
  const Topology& topology_;
  Router& router_;
  const Workload workload_;
  const StreamsCosts costs_;
  Fluid fluid_;
  std::int64_t now_ = 0;
  OpId last_ = -1;
  bool changed_ = false;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Moving> moving_;  // by flow
  std::vector<double> link_bytes_;
  std::vector<Recent> recent_;             // of each rank that receives
  std::vector<std::int32_t> missing_;      // of an op: what it still waits for
  std::vector<OpId> gate_, next_in_lane_;  // what it waited for longest; who is next in its stream
  std::vector<std::int64_t> ended_;        // picoseconds
  std::vector<std::int32_t> held_by_;      // the link that held its flow back
  std::vector<std::int64_t> first_follower_;
  std::vector<OpId> followers_;
};

}  // namespace

Timeline simulate(const Schedule& schedule, Router& router, const Workload& workload, const StreamsCosts& costs) {
  return Simulation(schedule, router, workload, costs).run();
}

}  // namespace allreduce
