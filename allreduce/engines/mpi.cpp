// SPDX-License-Identifier: Apache-2.0
// The engine `mpi`: a rank goes through its halves of a schedule, each begun when those before it have ended. Messages
// are posted as soon as they may be, before any reduce, so that they travel while the processor adds.
#include "allreduce/engines/mpi.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "allreduce/engines/halves.hpp"
#include "allreduce/engines/mpi_calls.hpp"
#include "allreduce/engines/rank_program.hpp"
#include "harness/device/reduce.hpp"

namespace allreduce {

namespace {

constexpr int looks_between_yields = 4;  // where ranks share cores; some libraries yield at each look by themselves

class MpiProgram : public RankProgram {
 public:
  MpiProgram(const Schedule& schedule, const Problem& problem, harness::World& world, std::size_t longest_message)
      : RankProgram(problem, world),
        schedule_(schedule),
        element_bytes_(harness::size_of(problem.dtype)),
        longest_message_(longest_message),
        yields_(world.sharers() > 1) {
    const Verdict verdict = verify(schedule);
    if (!verdict.proved) throw harness::Error(verdict.reason);
    if (schedule.shape.ranks != world.size()) {
      throw harness::Error(schedule.name + " is for " + std::to_string(schedule.shape.ranks) +
                           " ranks, and there are " + std::to_string(world.size()));
    }
    halves_ = halves_of(schedule, verdict, world.rank());
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) widest_ = std::max(widest_, bytes_of(chunk, 1));
    scratch_ = (*problem.devices)[0].allocate(widest_ * schedule.places[world.rank()] * schedule.scratch_width);
    followers_.resize(halves_.size());
    for (int id = 0; id < static_cast<int>(halves_.size()); ++id) {
      for (const int before : halves_[id].after) followers_[before].push_back(id);
    }
    require_tags();
  }

  ~MpiProgram() override { stop(); }

 protected:
  void run(std::byte* data, const std::byte* input) override {
    data_ = data;
    input_ = input;
    left_ = static_cast<int>(halves_.size());
    missing_.clear();
    for (int id = 0; id < static_cast<int>(halves_.size()); ++id) {
      missing_.push_back(static_cast<int>(halves_[id].after.size()));
      if (missing_.back() == 0) make_ready(id);
    }
    while (left_ > 0) {
      for (std::size_t i = 0; i < messages_.size(); ++i) post(messages_[i]);  // ending one may add to it
      messages_.clear();
      if (!work_.empty()) {
        const int id = work_.front();
        work_.pop_front();
        perform(id);
      }
      if (!requests_.empty()) progress(work_.empty() && messages_.empty());
    }
  }

 private:
  static bool is_message(const Half& half) { return half.kind == Half::Kind::send || half.kind == Half::Kind::receive; }
  std::size_t bytes_of(int first, int count) const {
    return element_bytes_ * (boundary(schedule_, problem().count, first + count, element_bytes_) -
                             boundary(schedule_, problem().count, first, element_bytes_));
  }
  std::size_t offset_of(int first) const {
    return element_bytes_ * boundary(schedule_, problem().count, first, element_bytes_);
  }
  std::byte* address(const Chunk& chunk, const Half& half) const {
    if (chunk.space == Space::data) return data_ + offset_of(half.first);
    if (chunk.space == Space::input) return const_cast<std::byte*>(input_) + offset_of(half.first);
    return scratch_.data() + widest_ * chunk.first;
  }

  // A message's tag is its number, and its parts have those that follow: all are known before the first run.
  void require_tags() {
    std::vector<std::size_t> next_to(world().size()), next_from(world().size());
    std::size_t most = 0;
    for (const Half& half : halves_) {
      std::size_t tag = 0;
      if (is_message(half)) {
        std::size_t& next = half.kind == Half::Kind::send ? next_to[half.to.rank] : next_from[half.from.rank];
        tag = next;
        next += parts_of(half);
        most = std::max(most, next);
      }
      tags_.push_back(static_cast<int>(tag));
    }
    int* limit = nullptr;
    int known = 0;
    MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &limit, &known);
    if (known == 0 || most <= static_cast<std::size_t>(*limit)) return;
    throw harness::Error(schedule_.name + " sends " + std::to_string(most) +
                         " messages from one rank to another, and " + "this MPI tells no more than " +
                         std::to_string(*limit) + " apart");
  }
  std::size_t parts_of(const Half& half) const {
    return (bytes_of(half.first, half.count) + longest_message_ - 1) / longest_message_;
  }

  void make_ready(int id) {
    if (is_message(halves_[id])) {
      messages_.push_back(id);
    } else {
      work_.push_back(id);
    }
  }

  void finish(int id) {
    --left_;
    for (const int follower : followers_[id]) {
      if (--missing_[follower] == 0) make_ready(follower);
    }
  }

  void perform(int id) {
    const Half& half = halves_[id];
    const std::byte* from = address(half.from, half);
    std::byte* to = address(half.to, half);
    const std::size_t bytes = bytes_of(half.first, half.count);
    if (half.kind == Half::Kind::copy) {
      std::memcpy(to, from, bytes);
    } else {
      const bool divides = problem().op == harness::Op::avg && half.divides;
      harness::reduce_on_host(from, to, bytes / element_bytes_,
                              {problem().dtype, problem().op, divides ? world().size() : 1});
    }
    finish(id);
  }

  // Nothing is sent of an empty chunk, as both ends know.
  void post(int id) {
    const Half& half = halves_[id];
    const bool sends = half.kind == Half::Kind::send;
    std::byte* memory = address(sends ? half.from : half.to, half);
    const std::size_t bytes = bytes_of(half.first, half.count);
    if (bytes == 0) return finish(id);
    parts_left_.resize(halves_.size());
    parts_left_[id] = 0;
    for (std::size_t begin = 0; begin < bytes; begin += longest_message_) {
      const int part = static_cast<int>(std::min(bytes - begin, longest_message_));
      const int tag = tags_[id] + parts_left_[id]++;
      MPI_Request request = MPI_REQUEST_NULL;
      const int status = sends
                             ? MPI_Isend(memory + begin, part, MPI_BYTE, half.to.rank, tag, communicator_, &request)
                             : MPI_Irecv(memory + begin, part, MPI_BYTE, half.from.rank, tag, communicator_, &request);
      if (status != MPI_SUCCESS) check_mpi(status, doing(half));
      requests_.push_back(request);
      in_flight_.push_back({id, sends ? -1 : part});
    }
  }

  std::string doing(const Half& half) const {
    return describe(schedule_, half.op) + ", " + std::to_string(bytes_of(half.first, half.count)) + " bytes, between " +
           world().name(half.from.rank) + " and " + world().name(half.to.rank);
  }

  // Ends what has come through; where there is nothing else to do, waits until something has.
  void progress(bool wait) {
    ended_.resize(requests_.size());
    statuses_.resize(requests_.size());
    for (int look = 1;; ++look) {
      int count = 0;
      const int status =
          MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended_.data(), statuses_.data());
      if (status != MPI_SUCCESS) throw_first_failure(status, count);
      if (count > 0) return end_messages(count);
      if (!wait) return;
      if (yields_ && look % looks_between_yields == 0) sched_yield();
    }
  }

  void end_messages(int count) {
    for (int i = 0; i < count; ++i) {
      const auto [id, expected] = in_flight_[ended_[i]];
      int got = 0;
      if (expected >= 0) MPI_Get_count(&statuses_[i], MPI_BYTE, &got);
      if (expected >= 0 && got != expected) {
        throw harness::Error(doing(halves_[id]) + ": " + std::to_string(got) + " bytes came instead of " +
                             std::to_string(expected));
      }
      if (--parts_left_[id] == 0) finish(id);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      in_flight_[kept++] = in_flight_[i];
    }
    requests_.resize(kept);
    in_flight_.resize(kept);
  }

  [[noreturn]] void throw_first_failure(int status, int count) const {
    for (int i = 0; i < count; ++i) {
      const int own = status == MPI_ERR_IN_STATUS ? statuses_[i].MPI_ERROR : status;
      check_mpi(own, doing(halves_[in_flight_[ended_[i]].half]));
    }
    check_mpi(status, "waiting for messages");
    throw harness::Error("MPI failed without a reason");
  }

  struct InFlight {
    int half;
    int expected;  // bytes of what is received; -1 for what is sent
  };

  const Schedule schedule_;
  const std::size_t element_bytes_, longest_message_;
  const bool yields_;
  Communicator communicator_;
  std::vector<Half> halves_;
  std::vector<std::vector<int>> followers_;
  std::vector<int> tags_;   // of a half's first message
  std::size_t widest_ = 0;  // bytes of the largest piece
  harness::Buffer scratch_;
  // Of the run that goes on:
  std::byte* data_ = nullptr;
  const std::byte* input_ = nullptr;
  int left_ = 0;
  std::vector<int> missing_, parts_left_;
  std::vector<int> messages_;  // halves that may begin
  std::deque<int> work_;       // others that may
  std::vector<MPI_Request> requests_;
  std::vector<InFlight> in_flight_;  // beside each request
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<Program> prepare_mpi(const Schedule& schedule, const Problem& problem, harness::World& world,
                                     std::size_t longest_message) {
  return std::make_unique<MpiProgram>(schedule, problem, world, longest_message);
}

}  // namespace allreduce
