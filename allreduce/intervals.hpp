// SPDX-License-Identifier: Apache-2.0
// Values over runs of integers: what a rank knows of its chunks, kept as few intervals instead of a table, so that
// schedules of thousands of ranks fit in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace allreduce {

// Maps every integer from 0 to `end` (excluded) to a Value, which is small and cheap to copy; neighbours are cut apart
// where a visit begins or ends. Sorted in one array: accesses mostly go upwards, and then a cut is an append.
template <typename Value>
class Intervals {
 public:
  Intervals(int end, Value value) : end_(end), runs_{{0, value}} {}

  // Gives all of [first, first + count) one value, and makes it one interval.
  void assign(int first, int count, Value value) {
    if (count <= 0) return;
    const std::size_t at = cut(first);
    const std::size_t last = cut(first + count);
    runs_[at].value = value;
    runs_.erase(runs_.begin() + at + 1, runs_.begin() + last);
  }

  // Calls visit(first, count, Value&) for the intervals that make up [first, first + count), in order. What it calls
  // must not visit the same intervals.
  template <typename Visit>
  void visit(int first, int count, Visit&& visit) {
    if (count <= 0) return;
    std::size_t at = cut(first);
    for (const std::size_t last = cut(first + count); at < last; ++at) {
      const int next = at + 1 == runs_.size() ? end_ : runs_[at + 1].first;
      visit(runs_[at].first, next - runs_[at].first, runs_[at].value);
    }
  }

 private:
  struct Run {
    int first;
    Value value;
  };

  // The index of the run that begins at `at`.
  std::size_t cut(int at) {
    if (at >= end_) return runs_.size();
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), at,
                                        [](int place, const Run& other) { return place < other.first; });
    const std::size_t index = after - runs_.begin();
    const Run holder = *std::prev(after);
    if (holder.first == at) return index - 1;
    runs_.insert(after, {at, holder.value});
    return index;
  }

  int end_;
  std::vector<Run> runs_;
};

// Many short lists of numbers that only grow at their heads, in one array. A list is its head, so that an interval
// which is cut apart copies a number and not the list.
class Lists {
 public:
  static constexpr int empty = -1;

  int push(int head, int value) {
    nodes_.push_back({value, head});
    return static_cast<int>(nodes_.size()) - 1;
  }

  template <typename Visit>
  void visit(int head, Visit&& visit) const {
    for (; head != empty; head = nodes_[head].next) visit(nodes_[head].value);
  }

 private:
  struct Node {
    int value, next;
  };
  std::vector<Node> nodes_;
};

}  // namespace allreduce
