// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that this project calls, for the fake machine: a collective is one piece of work on the streams
// of all its ranks, done by the loops of the CPU devices.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "harness/device/reduce.hpp"
#include "tests/fake_cuda/machine.hpp"

struct ncclComm {
  int rank = 0, gpu = 0;
  std::shared_ptr<int> alive;  // how many of the communicator's ranks are not destroyed
  int ranks = 0;
  std::set<const void*> registered = {};
};

namespace {

using fake::Machine;
using fake::misuse;

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, receive };

// A rank's part: `count` elements as the function's own argument counts them.
struct Call {
  Kind kind;
  ncclComm_t communicator;
  const void* from;
  void* to;
  std::size_t count;
  harness::Reduction reduction;
  int root;  // or the peer, of what is sent or received
  fake::Stream* stream;
};
bool is_of_two(const Call& call) { return call.kind == Kind::send || call.kind == Kind::receive; }

// What ncclMemAlloc gave out.
std::set<const void*>& taken() {
  static std::set<const void*> all;
  return all;
}

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
      return;
    case Kind::send:
    case Kind::receive: return;
  }
}

// Pairs what is sent with what is received: of two ranks, in the order of their calls.
std::vector<std::pair<Call, Call>> pairs_of(const std::vector<Call>& all) {
  std::vector<std::pair<Call, Call>> pairs;
  std::vector<const Call*> sent;
  for (const Call& call : all) {
    if (call.kind == Kind::send) sent.push_back(&call);
  }
  for (const Call& call : all) {
    if (call.kind != Kind::receive) continue;
    const auto match = std::find_if(sent.begin(), sent.end(), [&](const Call* other) {
      return other->communicator->rank == call.root && other->root == call.communicator->rank;
    });
    if (match == sent.end()) misuse("a rank receives by NCCL what nobody sends: it hangs");
    if ((*match)->count != call.count || (*match)->reduction.dtype != call.reduction.dtype) {
      misuse("a rank sends by NCCL something else than its peer receives");
    }
    pairs.emplace_back(**match, call);
    sent.erase(match);
  }
  if (!sent.empty()) misuse("a rank sends by NCCL what nobody receives: it hangs");
  return pairs;
}

void perform(const std::vector<std::pair<Call, Call>>& pairs) {
  const auto bytes_of = [](const Call& call) { return call.count * harness::size_of(call.reduction.dtype); };
  std::vector<std::vector<char>> moving;  // all at once
  for (const auto& [sent, received] : pairs) {
    Machine& machine = Machine::instance();
    machine.require_reach(sent.communicator->gpu, {sent.from, bytes_of(sent)}, "what NCCL sends");
    machine.require_reach(received.communicator->gpu, {received.to, bytes_of(received)}, "what NCCL receives");
    const char* begin = static_cast<const char*>(sent.from);
    moving.emplace_back(begin, begin + bytes_of(sent));
    for (const auto& [other, into] : pairs) {
      const char* target = static_cast<const char*>(into.to);
      if (begin < target + bytes_of(into) && target < begin + bytes_of(sent)) {
        misuse("NCCL receives where it sends from");
      }
    }
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::memcpy(pairs[i].second.to, moving[i].data(), moving[i].size());
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
ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("ncclMemAlloc") != cudaSuccess) return ncclUnhandledCudaError;
  *memory = machine.allocate(bytes, machine.current);
  if (!*memory) return ncclUnhandledCudaError;
  taken().insert(*memory);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (taken().erase(memory) == 0) misuse("NCCL is to free what it did not take");
  machine.run_all_of(machine.current);
  machine.release(memory, 0);
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t communicator, void* memory, std::size_t bytes, void** handle) {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (machine.enter("ncclCommRegister") != cudaSuccess) return ncclUnhandledCudaError;
  machine.require_reach(communicator->gpu, {memory, bytes}, "a registration with NCCL");
  if (!taken().contains(memory)) misuse("memory is registered with NCCL that ncclMemAlloc did not take");
  communicator->registered.insert(memory);
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t communicator, void* handle) {
  if (!taken().contains(handle)) misuse("memory is deregistered that was freed before");
  if (communicator->registered.erase(handle) == 0) misuse("NCCL knows nothing of what is deregistered");
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (!communicator->registered.empty()) misuse("a communicator is destroyed with memory that is registered");
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
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t handle) {
  return add("ncclSend", {Kind::send, communicator, from, nullptr, count, {}, peer, nullptr}, type, ncclSum, handle);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t handle) {
  return add("ncclRecv", {Kind::receive, communicator, nullptr, to, count, {}, peer, nullptr}, type, ncclSum, handle);
}
ncclResult_t ncclGroupEnd() {
  Machine& machine = Machine::instance();
  const std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  if (--depth > 0) return ncclSuccess;
  const std::vector<Call> ranks = std::exchange(calls, {});
  if (ranks.empty()) return ncclSuccess;
  std::vector<fake::Stream*> streams;
  if (is_of_two(ranks.front())) {
    for (const Call& call : ranks) {
      if (!is_of_two(call)) misuse("a group of NCCL has collectives beside sends");
      if (std::find(streams.begin(), streams.end(), call.stream) == streams.end()) streams.push_back(call.stream);
    }
    machine.issue_jointly(streams, {[pairs = pairs_of(ranks)] { perform(pairs); }});
    return ncclSuccess;
  }
  if (static_cast<int>(ranks.size()) != ranks.front().communicator->ranks) return ncclInvalidUsage;
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
