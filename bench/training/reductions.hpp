// SPDX-License-Identifier: Apache-2.0
// The all-reduces of a step over slices of the replicas' gradients, each prepared once and run by the engine and the
// algorithm of the point; or another collective in their place. On one device there are none to run.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "allreduce/engine.hpp"
#include "bench/training/strategy.hpp"

namespace bench {

// One all-reduce as each rank here saw it, in seconds since the watching began: from the moment that its gradients are
// there and the all-reduce before it has ended, to its own end.
struct Watched {
  std::string collective;
  models::Slice slice;
  std::vector<double> begin = {}, end = {};
};

class Reductions {
 public:
  // The slices are in the order in which backward fills them. An all_gather is of the parameters instead. Throws
  // harness::Refused for what the engine cannot do. Where ranks are processes, all make it together.
  Reductions(const Replicas& replicas, std::vector<models::Slice> slices, const StrategySettings& settings,
             allreduce::Collective collective = allreduce::Collective::allreduce);

  // Starts those that lie wholly in what backward has filled up to the end of this slice.
  void start(models::Slice filled);
  // Starts those that are left, and has every replica wait for all.
  void finish();
  void sync() const;

  // Has every all-reduce watched until unwatch(), by a stream on each device that only waits for it.
  void watch();
  // Call after a sync.
  std::vector<Watched> unwatch();

  const std::vector<models::Slice>& slices() const { return slices_; }
  std::optional<std::size_t> bytes_moved() const { return bytes_moved_; }

 private:
  // Has the ranks wait, after the reduction of so many bytes, as long as a slow link would take; gives when.
  std::vector<harness::Event> pass_links(const std::vector<harness::Event>& done, std::size_t bytes) const;
  // Gradients to what is sent, and back, as the replicas' streams come to it.
  void narrow(std::size_t index) const;
  void widen(std::size_t index) const;
  harness::Bfloat16* narrowed(int rank) const;

  const Replicas& replicas_;
  const std::string collective_;  // all_reduce, reduce_scatter or all_gather
  std::vector<models::Slice> slices_;
  std::vector<std::unique_ptr<harness::Stream>> lanes_;        // one a rank, which all programs share
  std::vector<std::unique_ptr<allreduce::Program>> programs_;  // one a slice
  std::vector<harness::Buffer> narrow_;                        // one a rank, where bf16 is sent
  std::vector<std::vector<harness::Event>> done_;              // of those that were started, one a rank
  std::optional<std::size_t> bytes_moved_ = 0;                 // nothing where a library decides
  const double link_bytes_per_second_;
  std::vector<std::unique_ptr<harness::Stream>> links_;  // one a rank, where there is such a link

  // Nothing is watched while there are no watchers. The marks of a rank: the origin, then two for each all-reduce.
  std::vector<std::unique_ptr<harness::Stream>> watchers_;
  std::vector<std::vector<harness::Event>> marks_;
};

// What crosses from one device to another when such a schedule is run over so many elements.
std::size_t bytes_crossing(const allreduce::Schedule& schedule, std::size_t count, std::size_t element_bytes);

}  // namespace bench
