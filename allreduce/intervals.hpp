// SPDX-License-Identifier: Apache-2.0
// Values over runs of integers: what a rank knows of its chunks, kept as few intervals instead of a table, so that
// schedules of thousands of ranks fit in memory.
#pragma once

#include <iterator>
#include <map>

namespace allreduce {

// Maps every integer from 0 to `end` (excluded) to a Value; neighbours are cut apart where an access begins or ends.
template <typename Value>
class Intervals {
 public:
  Intervals(int end, Value value) : end_(end) { starts_.emplace(0, std::move(value)); }

  // Calls visit(first, count, Value&) for the intervals that make up [first, first + count), in order.
  template <typename Visit>
  void visit(int first, int count, Visit&& visit) {
    if (count <= 0) return;
    cut(first + count);
    for (auto at = cut(first); at != starts_.end() && at->first < first + count; ++at) {
      const auto next = std::next(at);
      visit(at->first, (next == starts_.end() ? end_ : next->first) - at->first, at->second);
    }
  }

 private:
  typename std::map<int, Value>::iterator cut(int at) {
    if (at >= end_) return starts_.end();
    auto holder = std::prev(starts_.upper_bound(at));
    return holder->first == at ? holder : starts_.emplace_hint(std::next(holder), at, holder->second);
  }

  int end_;
  std::map<int, Value> starts_;
};

}  // namespace allreduce
