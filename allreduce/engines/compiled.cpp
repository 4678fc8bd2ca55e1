// SPDX-License-Identifier: Apache-2.0
// The recorded launch on CPU devices: every rank's part of a schedule compiled into a list that its worker runs
// through, without streams or events in between. Workers meet over counters in shared memory, on cache lines of their
// own.
//
// By most schedules one rank makes each part of the sum, and nobody else need touch that part. The vectors are then
// read and written where they are, by the moves of `fuse`; a run ends when all moves of all ranks have. So are long
// vectors by any schedule, and those of other collectives.
//
// By others (recursive doubling, one-shot) every rank makes the whole sum for itself, from vectors that their owners
// write again at once. There a short vector travels as messages: who sends writes into a mailbox of the receiver, the
// number of the run beside the first bytes, so that one cache line brings both. There are two mailboxes a message, for
// odd and even runs. No word goes back: a rank ends a run only with the contributions of all to that run, which they
// send after they have read their mail of the run before; so when a mailbox is written again it has been read. That is
// true of all-reduce alone: of other collectives some ranks' results may not depend on all ranks.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <new>

#include "allreduce/engine.hpp"
#include "allreduce/fuse.hpp"
#include "allreduce/verify.hpp"
#include "harness/clock.hpp"
#include "harness/device/cpu.hpp"
#include "harness/device/reduce.hpp"

namespace allreduce {

namespace {

using harness::Event;

constexpr std::size_t line_bytes = 64;
// Above, the copy into a mailbox costs more than to fetch lines where they are.
constexpr std::size_t longest_message_vector = 64 << 10;  // bytes
constexpr std::size_t block_bytes = 8192;  // of a move: what is summed up in the nearest cache before it is handed out

using Counter = std::atomic<std::uint64_t>;

// Where chunks lie, for one set of vectors.
class Places {
 public:
  Places(const Schedule& schedule, const Problem& problem)
      : schedule_(schedule),
        problem_(problem),
        element_bytes_(harness::size_of(problem.dtype)),
        pieces_(first_pieces(schedule)) {
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      widest_ = std::max(widest_, begin_of(chunk + 1) - begin_of(chunk));
    }
    for (Rank rank = 0; rank < schedule.shape.ranks; ++rank) {
      scratch_.push_back((*problem.devices)[rank].allocate(widest_ * schedule.places[rank] * schedule.scratch_width));
    }
  }

  std::size_t begin_of(int chunk) const {
    return element_bytes_ * boundary(schedule_, problem_.count, chunk, element_bytes_);
  }
  std::size_t bytes_of(int first, int count) const { return begin_of(first + count) - begin_of(first); }

  std::size_t bytes_of(OpId id) const { return bytes_of(pieces_[id], schedule_.ops[id].to.count); }
  std::byte* address(const Chunk& chunk, OpId id, const Buffers& buffers) const {
    return address_of(chunk, pieces_[id], buffers);
  }

  // `first`: the first piece of the vector that the chunk holds, also where it is in scratch.
  std::byte* address_of(const Chunk& chunk, int first, const Buffers& buffers) const {
    if (chunk.space == Space::data) return buffers.data[chunk.rank] + begin_of(first);
    if (chunk.space == Space::input) return const_cast<std::byte*>(buffers.input[chunk.rank]) + begin_of(first);
    return scratch_[chunk.rank].data() + widest_ * chunk.first;
  }

  const std::vector<harness::Buffer>& scratch() const { return scratch_; }

 private:
  const Schedule& schedule_;
  const Problem& problem_;
  std::size_t element_bytes_;
  std::vector<int> pieces_;  // of an op: the first piece of the vector that it is about
  std::size_t widest_ = 0;   // bytes of the largest piece
  std::vector<harness::Buffer> scratch_;
};

// What the worker of each rank does in one run.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual void run(Rank rank, std::uint64_t run, std::size_t set) = 0;
  // Whether a rank touches the vectors of others, so that they must be ready before it begins.
  virtual bool touches_peers() const = 0;
};

// Short vectors whose sum every rank makes for itself.
class Messages : public Plan {
 public:
  Messages(const Schedule& schedule, const Verdict& verdict, const Problem& problem, const Places& places)
      : problem_(problem), patience_(*problem.devices) {
    const int ranks = schedule.shape.ranks;
    std::vector<int> divisors(schedule.ops.size(), 1);
    if (problem.op == harness::Op::avg) {
      for (const OpId id : verdict.completing) divisors[id] = ranks;
    }
    const std::vector<OpId> folded = copies_read_once(schedule);
    std::vector<bool> is_read_where_it_lies(schedule.ops.size());
    for (const OpId copy : folded) {
      if (copy >= 0) is_read_where_it_lies[copy] = true;
    }
    std::vector<Box> boxes(schedule.ops.size());  // of the copies across ranks
    std::vector<std::size_t> room(ranks);
    for (OpId id = 0; id < static_cast<OpId>(schedule.ops.size()); ++id) {
      const Op& op = schedule.ops[id];
      if (op.from.rank == op.to.rank) continue;
      const std::size_t bytes = places.bytes_of(id);
      boxes[id].stride = bytes == 0 ? 0 : (sizeof(Counter) + bytes + line_bytes - 1) / line_bytes * line_bytes;
      boxes[id].offset = room[op.to.rank];
      room[op.to.rank] += 2 * boxes[id].stride;
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      mail_.push_back((*problem.devices)[rank].allocate(room[rank]));
      std::fill_n(mail_.back().data(), room[rank], std::byte{});
    }
    for (const Buffers& set : problem.buffers) {
      auto& lists = steps_.emplace_back(ranks);
      for (OpId id = 0; id < static_cast<OpId>(schedule.ops.size()); ++id) {
        const Op& op = schedule.ops[id];
        const std::size_t bytes = places.bytes_of(id);
        if (bytes == 0) continue;
        const auto box = [&](OpId copy) { return mail_[schedule.ops[copy].to.rank].data() + boxes[copy].offset; };
        const auto address = [&](const Chunk& chunk) { return places.address(chunk, id, set); };
        Step step{What::local, bytes, op.kind == Kind::reduce ? divisors[id] : 0};
        if (op.from.rank != op.to.rank) {
          step.stride = boxes[id].stride;
          lists[op.from.rank].push_back({What::send, bytes, 0, step.stride, address(op.from), box(id)});
          if (is_read_where_it_lies[id]) continue;
          step.what = What::receive;
          step.from = box(id);
        } else if (folded[id] >= 0) {
          step.what = What::receive;
          step.stride = boxes[folded[id]].stride;
          step.from = box(folded[id]);
        } else {
          step.from = address(op.from);
        }
        step.to = address(op.to);
        lists[op.to.rank].push_back(step);
      }
    }
  }

  void run(Rank rank, std::uint64_t run, std::size_t set) override {
    const std::size_t parity = run & 1;
    for (const Step& step : steps_[set][rank]) {
      const std::byte* from = step.from;
      std::byte* to = step.to;
      if (step.what == What::send) {
        // The line with the counter comes last, so that the receiver, who looks at it, leaves it alone until then.
        to += parity * step.stride;
        const std::size_t head = std::min(step.bytes, line_bytes - sizeof(Counter));
        std::memcpy(to + sizeof(Counter) + head, from + head, step.bytes - head);
        std::memcpy(to + sizeof(Counter), from, head);
        counter(to).store(run + 1, std::memory_order_release);
        continue;
      }
      if (step.what == What::receive) {
        from += parity * step.stride;
        patience_.wait(counter(from), run + 1, [&] { return "rank " + std::to_string(rank) + " for a message"; });
        from += sizeof(Counter);
      }
      if (step.divisor == 0) {
        std::memcpy(to, from, step.bytes);
      } else {
        harness::reduce_on_host(from, to, step.bytes / harness::size_of(problem_.dtype),
                                {problem_.dtype, problem_.op, step.divisor});
      }
    }
  }

  bool touches_peers() const override { return false; }

 private:
  enum class What { local, send, receive };
  struct Box {
    std::size_t offset = 0, stride = 0;  // in the receiver's mail; from the even runs' mailbox to the odd runs'
  };
  struct Step {
    What what;
    std::size_t bytes;
    int divisor;  // of a reduce; 0: a copy
    std::size_t stride = 0;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
  };

  static Counter& counter(std::byte* box) { return *reinterpret_cast<Counter*>(box); }
  static const Counter& counter(const std::byte* box) { return *reinterpret_cast<const Counter*>(box); }

  // For each op on one rank that alone reads what a copy from another rank brought into scratch: that copy. Else -1.
  static std::vector<OpId> copies_read_once(const Schedule& schedule) {
    std::map<std::pair<Rank, int>, OpId> writers;  // of scratch places
    std::vector<std::vector<OpId>> readers(schedule.ops.size());
    for (OpId id = 0; id < static_cast<OpId>(schedule.ops.size()); ++id) {
      const Op& op = schedule.ops[id];
      if (op.from.space == Space::scratch) readers[writers.at({op.from.rank, op.from.first})].push_back(id);
      if (op.to.space == Space::scratch) writers[{op.to.rank, op.to.first}] = id;
    }
    std::vector<OpId> copies(schedule.ops.size(), -1);
    for (OpId id = 0; id < static_cast<OpId>(schedule.ops.size()); ++id) {
      if (schedule.ops[id].from.rank == schedule.ops[id].to.rank || readers[id].size() != 1) continue;
      const Op& reader = schedule.ops[readers[id][0]];
      if (reader.from.rank == reader.to.rank) copies[readers[id][0]] = id;
    }
    return copies;
  }

  const Problem& problem_;
  harness::Patience patience_;
  std::vector<harness::Buffer> mail_;                  // of each rank
  std::vector<std::vector<std::vector<Step>>> steps_;  // of each set of vectors, of each rank
};

class Moves : public Plan {
 public:
  Moves(const Schedule& schedule, const Verdict& verdict, const Problem& problem, const Places& places)
      : problem_(problem), patience_(*problem.devices), ended_(schedule.shape.ranks) {
    auto moves = fuse(schedule, verdict);
    for (auto& list : moves) {
      // Who has nothing to do says at least that it has come, so that nobody runs ahead of it.
      if (list.empty()) list.emplace_back();
      counts_.push_back(list.size());
    }
    for (const Buffers& set : problem.buffers) {
      auto& lists = passes_.emplace_back(moves.size());
      for (std::size_t rank = 0; rank < moves.size(); ++rank) {
        for (const Move& move : moves[rank]) {
          Pass pass;
          for (const Chunk& chunk : move.from) pass.from.push_back(places.address_of(chunk, move.first, set));
          for (const Chunk& chunk : move.to) pass.to.push_back(places.address_of(chunk, move.first, set));
          pass.bytes = places.bytes_of(move.first, move.count);
          if (move.divides && problem.op == harness::Op::avg) pass.divisor = schedule.shape.ranks;
          pass.after = move.after;
          lists[rank].push_back(std::move(pass));
        }
      }
    }
  }

  void run(Rank rank, std::uint64_t run, std::size_t set) override {
    const auto wait = [&](Rank other, std::uint64_t moves) {
      patience_.wait(ended_[other].counter, run * counts_[other] + moves, [&] {
        return "rank " + std::to_string(rank) + " for move " + std::to_string(moves) + " of rank " +
               std::to_string(other);
      });
    };
    std::uint64_t ended = run * counts_[rank];
    for (const Pass& pass : passes_[set][rank]) {
      for (const auto& [other, moves] : pass.after) wait(other, moves);
      perform(pass);
      ended_[rank].counter.store(++ended, std::memory_order_release);
    }
    for (Rank other = 0; other < static_cast<Rank>(counts_.size()); ++other) {
      if (other != rank) wait(other, counts_[other]);
    }
  }

  bool touches_peers() const override { return true; }

 private:
  struct Pass {
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    std::size_t bytes = 0;
    int divisor = 1;
    std::vector<Move::After> after;
  };
  struct alignas(line_bytes) Ended {
    Counter counter{0};  // moves of this rank, over all runs
  };

  void perform(const Pass& pass) const {
    if (pass.from.size() <= 1) {
      for (std::byte* to : pass.to) {
        if (to != pass.from[0]) std::memcpy(to, pass.from[0], pass.bytes);
      }
      return;
    }
    const std::size_t element_bytes = harness::size_of(problem_.dtype);
    for (std::size_t at = 0; at < pass.bytes; at += block_bytes) {
      const std::size_t bytes = std::min(block_bytes, pass.bytes - at);
      std::byte* sum = pass.to[0] + at;
      if (pass.from[0] + at != sum) std::memcpy(sum, pass.from[0] + at, bytes);
      for (std::size_t i = 1; i < pass.from.size(); ++i) {
        const int divisor = i + 1 == pass.from.size() ? pass.divisor : 1;
        harness::reduce_on_host(pass.from[i] + at, sum, bytes / element_bytes, {problem_.dtype, problem_.op, divisor});
      }
      for (std::size_t i = 1; i < pass.to.size(); ++i) std::memcpy(pass.to[i] + at, sum, bytes);
    }
  }

  const Problem& problem_;
  harness::Patience patience_;
  std::vector<Ended> ended_;
  std::vector<std::uint64_t> counts_;                   // moves of each rank in a run
  std::vector<std::vector<std::vector<Pass>>> passes_;  // of each set of vectors, of each rank
};

class CompiledProgram : public Program {
 public:
  CompiledProgram(const Schedule& schedule, const Problem& problem) : problem_(problem) {
    const Verdict verdict = require_fitting(schedule, problem);
    const Places places(schedule, problem);
    const bool is_short = problem.count * harness::size_of(problem.dtype) <= longest_message_vector;
    if (is_short && schedule.collective == Collective::allreduce && makes_sums_again(schedule, verdict)) {
      plan_ = std::make_unique<Messages>(schedule, verdict, problem_, places);
    } else {
      plan_ = std::make_unique<Moves>(schedule, verdict, problem_, places);
    }
    scratch_ = places.scratch();
    for (Rank rank = 0; rank < schedule.shape.ranks; ++rank) workers_.push_back((*problem.devices)[rank].make_stream());
  }

  ~CompiledProgram() override {
    try {
      sync();
    } catch (const std::exception&) {  // told by the sync of whoever cared
    }
  }

  std::vector<Event> enqueue(std::span<const Event> ready) override { return give(1, next_set_++, ready); }

  // From when all workers have come, which may have to wake up first, to when the last one has ended.
  double time(int runs) override {
    next_set_ = runs;
    meeting_ += workers_.size();
    std::vector<double> begins(workers_.size()), ends(workers_.size());
    for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) {
      harness::run(*workers_[rank], [&, rank, first_run = runs_] {
        arrived_.fetch_add(1, std::memory_order_acq_rel);
        patience_.wait(arrived_, meeting_, [&] { return "rank " + std::to_string(rank) + " for all to begin"; });
        begins[rank] = harness::steady_seconds();
        run(rank, runs, 0, first_run);
        ends[rank] = harness::steady_seconds();
      });
    }
    runs_ += runs;
    sync();
    return (*std::ranges::max_element(ends) - *std::ranges::min_element(begins)) / runs;
  }

  void sync() override {
    for (const auto& worker : workers_) worker->sync();
  }

 private:
  std::vector<Event> give(int runs, std::size_t first_set, std::span<const Event> ready) {
    std::vector<Event> ended;
    for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) {
      for (Rank other = 0; other < static_cast<Rank>(ready.size()); ++other) {
        if (other == rank || plan_->touches_peers()) workers_[rank]->wait(ready[other]);
      }
      harness::run(*workers_[rank], [=, this, first_run = runs_] { run(rank, runs, first_set, first_run); });
      ended.push_back(workers_[rank]->record());
    }
    runs_ += runs;
    return ended;
  }

  // Whether several ranks bring together what belongs to a piece.
  static bool makes_sums_again(const Schedule& schedule, const Verdict& verdict) {
    int pieces = 0;
    for (const OpId id : verdict.completing) pieces += schedule.ops[id].to.count;
    return pieces > schedule.chunks;
  }

  void run(Rank rank, int runs, std::size_t first_set, std::uint64_t first_run) {
    for (int run = 0; run < runs; ++run) {
      plan_->run(rank, first_run + run, (first_set + run) % problem_.buffers.size());
    }
  }

  const Problem problem_;
  harness::Patience patience_{*problem_.devices};
  alignas(line_bytes) Counter arrived_{0};  // workers, over all timings
  std::uint64_t meeting_ = 0;               // how many have arrived when the next timing begins
  std::vector<harness::Buffer> scratch_;
  std::unique_ptr<Plan> plan_;
  std::vector<std::unique_ptr<harness::Stream>> workers_;  // before all else they end
  std::uint64_t runs_ = 0;
  std::size_t next_set_ = 0;
};

}  // namespace

std::unique_ptr<Program> prepare_compiled(const Schedule& schedule, const Problem& problem) {
  return std::make_unique<CompiledProgram>(schedule, problem);
}

}  // namespace allreduce
