// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that this project calls, for the fake machine: an all-reduce is one piece of work on the
// streams of all its ranks, done by the loops of the CPU devices.
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

struct Call {
  ncclComm_t communicator;
  const void* from;
  void* to;
  std::size_t count;
  harness::Reduction reduction;
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

void reduce_all(const std::vector<Call>& ranks) {
  const Call& first = ranks.front();
  const std::size_t bytes = first.count * harness::size_of(first.reduction.dtype);
  if (bytes == 0) return;
  for (const Call& call : ranks) {
    Machine::instance().require_reach(call.communicator->gpu, {call.from, bytes}, "an all-reduce of NCCL");
    Machine::instance().require_reach(call.communicator->gpu, {call.to, bytes}, "an all-reduce of NCCL");
  }
  std::vector<std::byte> sum(bytes);
  std::memcpy(sum.data(), first.from, bytes);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    harness::Reduction reduction = first.reduction;
    reduction.divisor =
        reduction.op == harness::Op::avg && rank + 1 == ranks.size() ? static_cast<int>(ranks.size()) : 1;
    harness::reduce_on_host(ranks[rank].from, sum.data(), first.count, reduction);
  }
  for (const Call& call : ranks) std::memcpy(call.to, sum.data(), bytes);
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
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("ncclAllReduce") != cudaSuccess) return ncclUnhandledCudaError;
  if (depth == 0 && communicator->ranks > 1) misuse("ranks of one process call NCCL outside of a group: they hang");
  fake::Stream* stream = machine.find(handle);
  if (stream->gpu != communicator->gpu) misuse("NCCL is given a stream of another GPU");
  calls.push_back({communicator, from, to, count, {dtype_of(type), op_of(op), 1}, stream});
  return ncclSuccess;
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
    if (call.count != ranks.front().count) misuse("ranks give NCCL different counts");
    streams.push_back(call.stream);
  }
  machine.issue_jointly(streams, {[ranks] { reduce_all(ranks); }});
  return ncclSuccess;
}

}  // extern "C"
