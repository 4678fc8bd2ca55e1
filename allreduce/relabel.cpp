// SPDX-License-Identifier: Apache-2.0
#include "allreduce/relabel.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace allreduce {

namespace {

constexpr int most_for_exact = 10;

// What the hops of a ring put on each link, and what rate that leaves.
class Loads {
 public:
  explicit Loads(Router& router) : router_(router), weight_(router.capacities().size()) {}

  void add(Rank from, Rank to, double sign) {
    const Route* route = router_.find_between(from, to);
    for (std::size_t hop = 0; route && hop < route->resources.size(); ++hop) {
      weight_[route->resources[hop]] += sign * route->weights[hop];
    }
  }

  // The lowest rate on what one hop uses; 0 where there is no way.
  double rate(Rank from, Rank to) {
    double lowest = std::numeric_limits<double>::infinity();
    const Route* route = router_.find_between(from, to);
    if (!route) return 0;
    for (const int resource : route->resources) {
      lowest = std::min(lowest, router_.capacities()[resource] / weight_[resource]);
    }
    return lowest;
  }

 private:
  Router& router_;
  std::vector<double> weight_;
};

class Exact {
 public:
  Exact(int ranks, Router& router) : ranks_(ranks), loads_(router), used_(ranks_), order_{0} {
    used_[0] = true;
    for (Rank from = 0; from < ranks; ++from) {
      for (Rank to = 0; to < ranks; ++to) {
        loads_.add(from, to, 1);
        alone_.push_back(from == to ? 0 : loads_.rate(from, to));
        loads_.add(from, to, -1);
      }
    }
    fastest_ = *std::ranges::max_element(alone_);
  }

  std::vector<Rank> run() {
    extend(std::numeric_limits<double>::infinity(), 0);
    return best_order_;
  }

 private:
  // Hops only ever add load: what is no better than the best now never will be. Among orders of one rate the one
  // whose hops would be fastest alone.
  void extend(double rate, double sum) {
    const bool whole = static_cast<int>(order_.size()) == ranks_;
    const auto left = static_cast<double>(ranks_ - static_cast<int>(order_.size()));
    for (Rank next = 0; next < ranks_; ++next) {
      if (whole ? next != 0 : used_[next]) continue;
      const Rank last = order_.back();
      const double together = sum + alone_[last * ranks_ + next];
      loads_.add(last, next, 1);
      const double now = std::min(rate, loads_.rate(last, next));
      const bool faster = now > best_ * (1 + 1e-9);
      const bool as_fast = best_ > 0 && now > best_ * (1 - 1e-9);
      if (faster || (as_fast && together + left * fastest_ > best_sum_ * (1 + 1e-9))) {
        if (whole) {
          best_ = now;
          best_sum_ = together;
          best_order_ = order_;
        } else {
          used_[next] = true;
          order_.push_back(next);
          extend(now, together);
          order_.pop_back();
          used_[next] = false;
        }
      }
      loads_.add(last, next, -1);
    }
  }

  const int ranks_;
  Loads loads_;
  std::vector<double> alone_;  // rate of each hop when nothing else is under way
  double fastest_ = 0;
  std::vector<bool> used_;
  std::vector<Rank> order_, best_order_;
  double best_ = 0, best_sum_ = 0;
};

}  // namespace

double ring_rate(Router& router, const std::vector<Rank>& order) {
  Loads loads(router);
  const auto next = [&](std::size_t at) { return order[(at + 1) % order.size()]; };
  for (std::size_t at = 0; at < order.size(); ++at) loads.add(order[at], next(at), 1);
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t at = 0; at < order.size(); ++at) lowest = std::min(lowest, loads.rate(order[at], next(at)));
  return lowest;
}

std::vector<Rank> best_ring(Router& router) {
  const int ranks = router.topology().size();
  std::vector<Rank> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  if (ranks < 3) return order;
  if (ranks <= most_for_exact) return Exact(ranks, router).run();
  double best = ring_rate(router, order);
  // No hop is faster than it is alone: where 0 to n-1 reaches that, there is nothing to look for.
  double alone = std::numeric_limits<double>::infinity();
  for (Rank rank = 0; rank < ranks; ++rank) {
    double fastest = 0;
    for (Rank other = 0; other < ranks && fastest <= best; ++other) {
      if (other != rank) fastest = std::max(fastest, ring_rate(router, {rank, other}));
    }
    alone = std::min(alone, fastest);
    if (alone <= best) return order;
  }
  const auto try_order = [&](std::vector<Rank> candidate) {
    const double rate = ring_rate(router, candidate);
    if (rate <= best * (1 + 1e-9)) return false;
    best = rate;
    order = std::move(candidate);
    return true;
  };
  for (bool better = true; better;) {
    better = false;
    for (std::size_t first = 1; first < order.size(); ++first) {
      for (std::size_t last = first + 1; last < order.size(); ++last) {
        auto reversed = order;
        std::reverse(reversed.begin() + first, reversed.begin() + last + 1);
        auto exchanged = order;
        std::swap(exchanged[first], exchanged[last]);
        better = try_order(std::move(reversed)) || try_order(std::move(exchanged)) || better;
      }
    }
  }
  return order;
}

}  // namespace allreduce
