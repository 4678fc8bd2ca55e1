// SPDX-License-Identifier: Apache-2.0
// Devices with their replicas, and the strategies of a block that share them: what a point is measured on, and what
// then trains. Several fleets can be there at once, so that their steps are timed in turns.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/session.hpp"
#include "bench/training/stages.hpp"
#include "bench/training/sweep.hpp"

namespace bench {

// A strategy, and its row of the report.
struct Way {
  std::size_t row = 0;
  std::unique_ptr<Strategy> strategy;
};

class Fleet {
 public:
  // A way for each of the rows, which were described by the sweep, except those that are refused here; their memory is
  // recorded there, and with --find-bucket the sizes that were tried. Throws harness::OutOfMemory, and what the sweep's
  // checkpoint refuses. Where ranks are processes, all make it together.
  Fleet(const Sweep& sweep, harness::Devices& devices, const CourseSettings& course, std::span<const std::size_t> rows,
        Session& session, harness::World& world);

  Replicas& replicas() { return replicas_; }
  std::span<const Way> ways() const { return ways_; }
  const CourseSettings& course() const { return course_; }
  Batch first_batch() const { return Course(replicas_.ranks(), course_).batch(0); }

 private:
  // Tries sizes from small ones to the whole of the gradients, as far as they cut those differently.
  void find_bucket(const Sweep& sweep, std::size_t row, Session& session);
  void record_stages(std::size_t row, Session& session) const;
  void record_memory(const Way& way, std::span<const std::size_t> scratch, Session& session) const;
  // Bytes of each device beyond those.
  std::vector<std::size_t> allocated(std::span<const std::size_t> before = {}) const;

  harness::Devices& devices_;
  CourseSettings course_;
  std::vector<std::size_t> before_;  // bytes that each device held when it came
  std::vector<DealtStage> stages_;   // of a pipeline, by rank
  Replicas replicas_;
  std::vector<std::size_t> replica_bytes_;
  std::vector<Way> ways_;
};

}  // namespace bench
