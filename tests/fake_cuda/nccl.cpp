// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that this project calls, for the fake machine: a collective is one piece of work on the streams
// of all its ranks, done by the loops of the CPU devices.
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "harness/device/reduce.hpp"
#include "tests/fake_cuda/machine.hpp"

struct ncclComm {
  int rank = 0, gpu = 0;
  std::shared_ptr<int> alive;  // how many of the communicator's ranks are not destroyed
  int ranks = 0;
};

namespace {

using fake::Machine;
using fake::misuse;

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce };

// A rank's part: `count` elements as the function's own argument counts them.
struct Call {
  Kind kind;
  ncclComm_t communicator;
  const void* from;
  void* to;
  std::size_t count;
  harness::Reduction reduction;
  int root;
  fake::Stream* stream;
};

int depth = 0;
std::vector<Call> calls;

harness::Dtype dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32: return harness::Dtype::f32;
    case ncclFloat64: return harness::Dtype::f64;
    case ncclFloat16: return harness::Dtype::f16;
    case ncclBfloat16: return harness::Dtype::bf16;
    case ncclInt32: return harness::Dtype::i32;
    default: misuse("the fake NCCL knows nothing of this type");
  }
}

harness::Op op_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum: return harness::Op::sum;
    case ncclAvg: return harness::Op::avg;
    case ncclMin: return harness::Op::min;
    case ncclMax: return harness::Op::max;
    case ncclProd: return harness::Op::prod;
    default: misuse("the fake NCCL knows nothing of this operation");
  }
}

std::vector<std::byte> sum_of(const std::vector<Call>& ranks, std::size_t count) {
  harness::Reduction reduction = ranks.front().reduction;
  std::vector<std::byte> sum(count * harness::size_of(reduction.dtype));
  std::memcpy(sum.data(), ranks.front().from, sum.size());
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const bool divides = reduction.op == harness::Op::avg && rank + 1 == ranks.size();
    reduction.divisor = divides ? static_cast<int>(ranks.size()) : 1;
    harness::reduce_on_host(ranks[rank].from, sum.data(), count, reduction);
  }
  return sum;
}

void perform(const std::vector<Call>& ranks) {
  const Call& first = ranks.front();
  const std::size_t bytes = first.count * harness::size_of(first.reduction.dtype);
  if (bytes == 0) return;
  const std::size_t all = bytes * ranks.size();
  for (const Call& call : ranks) {
    const bool is_root = call.communicator->rank == call.root;
    const std::size_t read = call.kind == Kind::reduce_scatter          ? all
                             : call.kind == Kind::broadcast && !is_root ? 0
                                                                        : bytes;
    const std::size_t written = call.kind == Kind::all_gather ? all : call.kind == Kind::reduce && !is_root ? 0 : bytes;
    if (read > 0) Machine::instance().require_reach(call.communicator->gpu, {call.from, read}, "a collective of NCCL");
    if (written > 0) {
      Machine::instance().require_reach(call.communicator->gpu, {call.to, written}, "a collective of NCCL");
    }
  }
  const auto part = [&](void* of, std::size_t rank) { return static_cast<std::byte*>(of) + rank * bytes; };
  switch (first.kind) {
    case Kind::all_reduce: {
      const auto sum = sum_of(ranks, first.count);
      for (const Call& call : ranks) std::memcpy(call.to, sum.data(), bytes);
      return;
    }
    case Kind::reduce: {
      const auto sum = sum_of(ranks, first.count);
      std::memcpy(ranks[first.root].to, sum.data(), bytes);
      return;
    }
    case Kind::reduce_scatter: {
      auto sum = sum_of(ranks, first.count * ranks.size());
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        std::memcpy(ranks[rank].to, part(sum.data(), rank), bytes);
      }
      return;
    }
    case Kind::all_gather:
      for (const Call& call : ranks) {
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
          std::memmove(part(call.to, rank), ranks[rank].from, bytes);
        }
      }
      return;
    case Kind::broadcast:
      for (const Call& call : ranks) std::memmove(call.to, ranks[first.root].from, bytes);
  }
}

ncclResult_t add(const char* name, Call call, ncclDataType_t type, ncclRedOp_t op, cudaStream_t handle) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter(name) != cudaSuccess) return ncclUnhandledCudaError;
  const ncclComm& communicator = *call.communicator;
  if (depth == 0 && communicator.ranks > 1) misuse("ranks of one process call NCCL outside of a group: they hang");
  if (call.root < 0 || call.root >= communicator.ranks) return ncclInvalidArgument;
  call.stream = machine.find(handle);
  if (call.stream->gpu != communicator.gpu) misuse("NCCL is given a stream of another GPU");
  call.reduction = {dtype_of(type), op_of(op), 1};
  calls.push_back(call);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t status) {
  return status == ncclInvalidUsage ? "invalid usage" : "failure of the fake machine";
}
ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int* gpus) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("ncclCommInitAll") != cudaSuccess) return ncclSystemError;
  const auto alive = std::make_shared<int>(count);
  for (int rank = 0; rank < count; ++rank) {
    if (gpus[rank] >= machine.gpus || std::count(gpus, gpus + count, gpus[rank]) > 1) return ncclInvalidUsage;
  }
  for (int rank = 0; rank < count; ++rank) communicators[rank] = new ncclComm{rank, gpus[rank], alive, count};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* status) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  *status = machine.enter("ncclCommGetAsyncError") == cudaSuccess ? ncclSuccess : ncclRemoteError;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t communicator, cudaStream_t handle) {
  return add("ncclAllReduce", {Kind::all_reduce, communicator, from, to, count, {}, 0, nullptr}, type, op, handle);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t communicator, cudaStream_t handle) {
  return add("ncclReduceScatter", {Kind::reduce_scatter, communicator, from, to, count, {}, 0, nullptr}, type, op,
             handle);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t handle) {
  return add("ncclAllGather", {Kind::all_gather, communicator, from, to, count, {}, 0, nullptr}, type, ncclSum, handle);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t handle) {
  return add("ncclBroadcast", {Kind::broadcast, communicator, from, to, count, {}, root, nullptr}, type, ncclSum,
             handle);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t communicator, cudaStream_t handle) {
  return add("ncclReduce", {Kind::reduce, communicator, from, to, count, {}, root, nullptr}, type, op, handle);
}
ncclResult_t ncclGroupEnd() {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (--depth > 0) return ncclSuccess;
  const std::vector<Call> ranks = std::exchange(calls, {});
  if (ranks.empty()) return ncclSuccess;
  if (static_cast<int>(ranks.size()) != ranks.front().communicator->ranks) return ncclInvalidUsage;
  std::vector<fake::Stream*> streams;
  for (const Call& call : ranks) {
    const Call& first = ranks.front();
    if (call.count != first.count || call.kind != first.kind || call.root != first.root) {
      misuse("ranks give NCCL different counts, roots or collectives");
    }
    streams.push_back(call.stream);
  }
  machine.issue_jointly(streams, {[ranks] { perform(ranks); }});
  return ncclSuccess;
}

}  // extern "C"
