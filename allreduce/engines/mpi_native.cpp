// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <cstring>

#include "allreduce/engines/mpi.hpp"
#include "allreduce/engines/mpi_calls.hpp"
#include "allreduce/engines/rank_program.hpp"

namespace allreduce {

namespace {

std::optional<MPI_Datatype> mpi_type_of(harness::Dtype dtype) {
  switch (dtype) {
    case harness::Dtype::f32: return MPI_FLOAT;
    case harness::Dtype::f64: return MPI_DOUBLE;
    case harness::Dtype::i32: return MPI_INT32_T;
    case harness::Dtype::f16:
    case harness::Dtype::bf16: break;
  }
  return std::nullopt;
}

std::optional<MPI_Op> mpi_op_of(harness::Op op) {
  switch (op) {
    case harness::Op::sum: return MPI_SUM;
    case harness::Op::min: return MPI_MIN;
    case harness::Op::max: return MPI_MAX;
    case harness::Op::prod: return MPI_PROD;
    case harness::Op::avg: break;
  }
  return std::nullopt;
}

class NativeProgram : public RankProgram {
 public:
  NativeProgram(const Problem& problem, const NativeCall& call, harness::World& world)
      : RankProgram(problem, world),
        call_(call),
        count_(static_cast<int>(problem.count)),
        type_(*mpi_type_of(problem.dtype)),
        op_(*mpi_op_of(reduces(call.collective) ? problem.op : harness::Op::sum)) {
    for (int rank = 0; rank <= world.size(); ++rank) {
      offsets_.push_back(static_cast<int>(slice_begin(problem.count, world.size(), rank)));
      if (rank > 0) counts_.push_back(offsets_[rank] - offsets_[rank - 1]);
    }
  }
  ~NativeProgram() override { stop(); }

 protected:
  void run(std::byte* data, const std::byte* input) override {
    const int status = call(data, input);
    if (status == MPI_SUCCESS) return;
    check_mpi(status, "MPI's " + std::string(name(call_.collective)) + " of " + std::to_string(count_) + " elements");
  }

 private:
  // Slices stand where they do for our own schedules.
  int call(std::byte* data, const std::byte* input) {
    const bool is_root = world().rank() == call_.root;
    const std::size_t offset = offsets_[world().rank()] * harness::size_of(problem().dtype);
    const void* given = input ? input : MPI_IN_PLACE;
    switch (call_.collective) {
      case Collective::allreduce: return MPI_Allreduce(given, data, count_, type_, op_, communicator_);
      case Collective::reduce_scatter:
        return MPI_Reduce_scatter(input, data + offset, counts_.data(), type_, op_, communicator_);
      case Collective::all_gather:
        return MPI_Allgatherv(input ? input + offset : MPI_IN_PLACE, counts_[world().rank()], type_, data,
                              counts_.data(), offsets_.data(), type_, communicator_);
      case Collective::broadcast:
        if (input && is_root) std::memcpy(data, input, count_ * harness::size_of(problem().dtype));
        return MPI_Bcast(data, count_, type_, call_.root, communicator_);
      case Collective::reduce:
        if (!input && !is_root) given = data;
        return MPI_Reduce(given, data, count_, type_, op_, call_.root, communicator_);
      case Collective::all_to_all:
      case Collective::send_recv: break;  // refused
    }
    return MPI_ERR_OTHER;
  }

  const NativeCall call_;
  const int count_;
  const MPI_Datatype type_;
  const MPI_Op op_;
  std::vector<int> offsets_, counts_;  // of each rank's slice
  Communicator communicator_;
};

}  // namespace

std::optional<std::string> mpi_native_refuses(const Problem& problem, const NativeCall& call) {
  if (!mpi_type_of(problem.dtype)) return "MPI has no type for " + std::string(harness::name(problem.dtype));
  if (reduces(call.collective) && !mpi_op_of(problem.op)) return "MPI has no average";
  if (differs_by_rank(call.collective)) {
    return "of MPI's own collectives " + std::string(name(call.collective)) + " is not here";
  }
  if (problem.count > INT_MAX) {
    return "MPI counts with an int, and " + std::to_string(problem.count) + " elements are too many";
  }
  if (call.collective == Collective::reduce_scatter && problem.buffers.at(0).input.empty()) {
    return "in place MPI leaves each slice at the beginning of the vector; take --placement=out_of_place";
  }
  if (call.collective == Collective::reduce && call.root != 0 && problem.buffers.at(0).input.empty() &&
      !reduces_in_place_at_any_root) {
    return "this MPI fails in place with another root than rank 0; take --placement=out_of_place";
  }
  return std::nullopt;
}

std::unique_ptr<Program> prepare_mpi_native(const Problem& problem, const NativeCall& call, harness::World& world) {
  if (const auto why = mpi_native_refuses(problem, call)) throw harness::Error(*why);
  return std::make_unique<NativeProgram>(problem, call, world);
}

}  // namespace allreduce
