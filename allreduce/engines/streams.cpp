// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "allreduce/engine.hpp"
#include "allreduce/engines/lanes.hpp"
#include "allreduce/engines/steps.hpp"

namespace allreduce {

namespace {

using harness::Event;

class StreamsProgram : public LaneProgram {
 public:
  StreamsProgram(const Schedule& schedule, const Problem& problem)
      : LaneProgram(problem), schedule_(schedule), element_bytes_(harness::size_of(problem.dtype)) {
    const Verdict verdict = require_fitting(schedule, problem);
    steps_ = problem.fused ? fused_steps_of(schedule, verdict) : steps_of(schedule, verdict, problem.direction);
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      widest_ = std::max(widest_, begin_of(chunk + 1) - begin_of(chunk));
    }
    for (Rank rank = 0; rank < ranks(); ++rank) {
      scratch_.push_back(
          (*problem.devices)[rank].allocate(widest_ * element_bytes_ * schedule.places[rank] * schedule.scratch_width));
    }
    find_crossings();
    ended_.resize(ranks());
    record();
  }
  ~StreamsProgram() override { stop(); }

  // Whoever records what comes next finds nothing to wait for.
  void sync() override {
    LaneProgram::sync();
    ended_.assign(ranks(), Event());
  }

 private:
  std::size_t begin_of(int chunk) const { return boundary(schedule_, problem().count, chunk, element_bytes_); }

  void issue(const Buffers& buffers) override { issue_steps(buffers); }
  // Where nothing is said of the vectors, they are ready when the run before has ended, which ended in the own lane.
  std::vector<Event> run(const Buffers& buffers, std::span<const Event> ready) override {
    const std::vector<Event> start = ready.empty() ? ended_ : std::vector<Event>(ready.begin(), ready.end());
    const std::vector<Event> done = issue_steps(buffers, start, ready.empty());
    // A rank's run has ended when no lane touches its memory any more.
    for (Rank rank = 0; rank < ranks(); ++rank) {
      if (!ready.empty() && !touches_own_[rank]) lane(rank).wait(ready[rank]);
      for (const OpId last : last_touches_[rank]) lane(rank).wait(done[last]);
      ended_[rank] = lane(rank).record();
    }
    return ended_;
  }

  // Which dependencies cross streams, without those that an earlier wait of the same stream already covers.
  void find_crossings() {
    touches_.resize(steps_.size());
    scratch_touches_.resize(steps_.size());
    std::set<std::pair<Rank, Rank>> pushes;  // (lane, rank whose scratch it touches)
    last_touches_.resize(ranks());
    // Of a rank: the lanes that touch its memory (its own lane: its vector), and the last step of each that does.
    std::vector<std::map<Rank, OpId>> touching(ranks());
    waits_.resize(steps_.size());
    awaited_.assign(steps_.size(), false);
    std::map<std::pair<Rank, Rank>, OpId> covered;  // (who waits, for whom) -> up to which step
    for (OpId id = 0; id < static_cast<OpId>(steps_.size()); ++id) {
      const Step& step = steps_[id];
      const Rank lane = step.lane;
      for (const Chunk* chunk : {&step.from, &step.to}) {
        if (chunk->rank == lane && chunk->space == Space::scratch) continue;
        if (!touching[chunk->rank].contains(lane)) touches_[id].push_back(chunk->rank);
        if (chunk->space == Space::scratch && pushes.emplace(lane, chunk->rank).second) {
          scratch_touches_[id].push_back(chunk->rank);
        }
        touching[chunk->rank][lane] = id;
      }
      std::map<Rank, OpId> latest;
      for (const OpId before : step.after) {
        const Rank other = steps_[before].lane;
        if (other != lane) latest[other] = std::max(latest.contains(other) ? latest[other] : -1, before);
      }
      for (const auto& [other, before] : latest) {
        auto [known, fresh] = covered.try_emplace({lane, other}, before);
        if (!fresh && known->second >= before) continue;
        known->second = before;
        waits_[id].push_back(before);
        awaited_[before] = true;
      }
    }
    for (Rank rank = 0; rank < ranks(); ++rank) {
      touches_own_.push_back(touching[rank].contains(rank));
      for (const auto& [lane, last] : touching[rank]) {
        if (lane == rank) continue;
        const auto known = covered.find({rank, lane});
        if (known != covered.end() && known->second >= last) continue;
        last_touches_[rank].push_back(last);
        awaited_[last] = true;
      }
    }
  }

  // Gives the steps to the lanes by level, as they are sorted: first-in-first-out streams then never hold up a chunk
  // behind one of a later level. `start`, where given: after which a rank's vector may be touched; its own lane may
  // have waited for that already. Gives the events of the steps that some lane waits for.
  std::vector<Event> issue_steps(const Buffers& buffers, std::span<const Event> start = {}, bool own_started = false) {
    std::vector<Event> done(steps_.size());
    for (OpId id = 0; id < static_cast<OpId>(steps_.size()); ++id) {
      const Step& step = steps_[id];
      harness::Stream& lane = this->lane(step.lane);
      for (const Rank rank : touches_[id]) {
        if (!start.empty() && !(own_started && rank == step.lane)) lane.wait(start[rank]);
      }
      // Scratch is the same in every run, also where the vectors are others that are ready before the last run ended.
      for (const Rank rank : scratch_touches_[id]) {
        if (!start.empty() && !own_started) lane.wait(ended_[rank]);
      }
      for (const OpId before : waits_[id]) lane.wait(done[before]);
      const std::size_t begin = begin_of(step.first);
      const std::size_t count = begin_of(step.first + step.count) - begin;
      const auto address = [&](const Chunk& chunk) -> const std::byte* {
        if (chunk.space == Space::data) return buffers.data[chunk.rank] + begin * element_bytes_;
        if (chunk.space == Space::input) return buffers.input[chunk.rank] + begin * element_bytes_;
        return scratch_[chunk.rank].data() + widest_ * element_bytes_ * chunk.first;
      };
      auto* to = const_cast<std::byte*>(address(step.to));
      if (step.kind == Kind::copy) {
        lane.copy(address(step.from), to, count * element_bytes_);
      } else {
        const bool divides = problem().op == harness::Op::avg && step.divides;
        lane.reduce(address(step.from), to, count, {problem().dtype, problem().op, divides ? ranks() : 1});
      }
      if (awaited_[id]) done[id] = lane.record();
    }
    return done;
  }

  const Schedule schedule_;
  const std::size_t element_bytes_;
  std::size_t widest_ = 0;  // elements of the largest piece
  std::vector<Step> steps_;
  std::vector<std::vector<OpId>> waits_;            // of a step: those of other lanes that its lane must wait for
  std::vector<bool> awaited_;                       // some lane waits for this step
  std::vector<std::vector<Rank>> touches_;          // of a step: ranks whose memory its lane touches here first
  std::vector<std::vector<Rank>> scratch_touches_;  // of a step: ranks whose scratch another's lane touches here first
  std::vector<bool> touches_own_;                   // of a rank: its lane touches its vector
  // Of a rank: the last step of each other lane that touches its memory, where its own steps do not follow that anyway.
  std::vector<std::vector<OpId>> last_touches_;
  std::vector<harness::Buffer> scratch_;
  std::vector<Event> ended_;  // of each rank, in the last eager run
};

}  // namespace

std::unique_ptr<Program> prepare_streams(const Schedule& schedule, const Problem& problem) {
  return std::make_unique<StreamsProgram>(schedule, problem);
}

}  // namespace allreduce
