// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/nccl.hpp"

#include <nccl.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "allreduce/engines/lanes.hpp"
#include "harness/device/cuda_native.hpp"

namespace allreduce {

namespace {

constexpr bool can_register = NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0);

void check_nccl(ncclResult_t status, const std::string& doing) {
  if (status != ncclSuccess) harness::fail_on_gpu(doing, std::string("NCCL: ") + ncclGetErrorString(status));
}

ncclDataType_t type_of(harness::Dtype dtype) {
  switch (dtype) {
    case harness::Dtype::f32: return ncclFloat32;
    case harness::Dtype::f64: return ncclFloat64;
    case harness::Dtype::f16: return ncclFloat16;
    case harness::Dtype::bf16: return ncclBfloat16;
    case harness::Dtype::i32: return ncclInt32;
  }
  return ncclFloat32;
}

ncclRedOp_t op_of(harness::Op op) {
  switch (op) {
    case harness::Op::sum: return ncclSum;
    case harness::Op::avg: return ncclAvg;
    case harness::Op::min: return ncclMin;
    case harness::Op::max: return ncclMax;
    case harness::Op::prod: return ncclProd;
  }
  return ncclSum;
}

// A variable of the environment that NCCL reads while a communicator is made, set for as long as this lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Of the GPUs of a point; programs that are there at the same time share them, since each takes memory and seconds to
// make, and NCCL lets one have one collective at a time run: in the order in which they were issued.
class Communicators {
 public:
  // One that knows vectors beforehand is not shared: to others they would be registered too.
  static std::shared_ptr<Communicators> of(const std::vector<int>& gpus, const NcclCall& call) {
    const std::string& algorithm = call.algorithm;
    if (call.registers) return std::make_shared<Communicators>(gpus, algorithm);
    static std::map<std::pair<std::vector<int>, std::string>, std::weak_ptr<Communicators>> known;
    auto& kept = known[{gpus, algorithm}];
    auto found = kept.lock();
    if (!found) kept = found = std::make_shared<Communicators>(gpus, algorithm);
    return found;
  }

  Communicators(const std::vector<int>& gpus, const std::string& algorithm) : each_(gpus.size()) {
    std::optional<Setting> setting;
    if (algorithm != "auto") setting.emplace("NCCL_ALGO", algorithm);
    check_nccl(ncclCommInitAll(each_.data(), static_cast<int>(gpus.size()), gpus.data()),
               "making a communicator of " + std::to_string(gpus.size()) + " GPUs");
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() {
    for (const ncclComm_t communicator : each_) ncclCommDestroy(communicator);
  }
  ncclComm_t operator[](Rank rank) const { return each_[rank]; }

 private:
  std::vector<ncclComm_t> each_;
};

std::vector<int> gpus_of(const harness::Devices& devices) {
  std::vector<int> gpus;
  for (Rank rank = 0; rank < devices.size(); ++rank) gpus.push_back(harness::gpu_of(devices[rank]));
  return gpus;
}

// Vectors that a communicator knows beforehand, for as long as this lives.
class Registrations {
 public:
  Registrations() = default;
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  ~Registrations() {
    for (const auto& [communicator, handle] : all_) ncclCommDeregister(communicator, handle);
  }
  void add(ncclComm_t communicator, const std::byte* vector, std::size_t bytes) {
    if (bytes == 0) return;
    void* handle = nullptr;
    check_nccl(ncclCommRegister(communicator, const_cast<std::byte*>(vector), bytes, &handle),
               "registering " + std::to_string(bytes) + " bytes");
    all_.emplace_back(communicator, handle);
  }

 private:
  std::vector<std::pair<ncclComm_t, void*>> all_;
#else
  void add(ncclComm_t, const std::byte*, std::size_t) {}  // refused before
#endif
};

class NcclProgram : public LaneProgram {
 public:
  NcclProgram(const Problem& problem, const NcclCall& call)
      : LaneProgram(problem), call_(call), communicators_(Communicators::of(gpus_of(*problem.devices), call)) {
    const std::size_t bytes = problem.count * harness::size_of(problem.dtype);
    for (const Buffers& buffers : problem.buffers) {
      for (Rank rank = 0; rank < ranks() && call.registers; ++rank) {
        registrations_.add((*communicators_)[rank], buffers.data[rank], bytes);
        if (!buffers.input.empty()) registrations_.add((*communicators_)[rank], buffers.input[rank], bytes);
      }
    }
    record();
  }
  ~NcclProgram() override { stop(); }

  void sync() override {
    LaneProgram::sync();
    for (Rank rank = 0; rank < ranks(); ++rank) {
      ncclResult_t status = ncclSuccess;
      check_nccl(ncclCommGetAsyncError((*communicators_)[rank], &status), "asking rank " + std::to_string(rank));
      check_nccl(status, std::string(name(call_.collective)) + " on rank " + std::to_string(rank));
    }
  }

 private:
  // A rank's part. Slices stand where they do for our own schedules, which is what NCCL calls in place too.
  ncclResult_t issue(const Buffers& buffers, Rank rank) {
    std::byte* data = buffers.data[rank];
    const std::byte* given = buffers.input.empty() ? data : buffers.input[rank];
    const std::size_t count = problem().count;
    const std::size_t slice = count / ranks();
    const std::size_t offset = slice * rank * harness::size_of(problem().dtype);
    const ncclDataType_t type = type_of(problem().dtype);
    const ncclRedOp_t op = op_of(problem().op);
    const ncclComm_t communicator = (*communicators_)[rank];
    const cudaStream_t stream = harness::native_stream(lane(rank));
    switch (call_.collective) {
      case Collective::allreduce: return ncclAllReduce(given, data, count, type, op, communicator, stream);
      case Collective::reduce_scatter:
        return ncclReduceScatter(given, data + offset, slice, type, op, communicator, stream);
      case Collective::all_gather: return ncclAllGather(given + offset, data, slice, type, communicator, stream);
      case Collective::broadcast: return ncclBroadcast(given, data, count, type, call_.root, communicator, stream);
      case Collective::reduce: return ncclReduce(given, data, count, type, op, call_.root, communicator, stream);
      case Collective::all_to_all: {
        ncclResult_t status = ncclSuccess;
        for (Rank peer = 0; peer < ranks() && status == ncclSuccess; ++peer) {
          const std::size_t at = slice * peer * harness::size_of(problem().dtype);
          status = exchange({given + at, peer}, {data + at, peer}, slice, rank);
        }
        return status;
      }
      case Collective::send_recv:
        return exchange({given, (rank + 1) % ranks()}, {data, (rank + ranks() - 1) % ranks()}, count, rank);
    }
    return ncclInvalidArgument;
  }

  template <typename Byte>
  struct End {
    Byte* vector;
    Rank peer;
  };
  ncclResult_t exchange(End<const std::byte> sent, End<std::byte> received, std::size_t count, Rank rank) {
    const ncclDataType_t type = type_of(problem().dtype);
    const cudaStream_t stream = harness::native_stream(lane(rank));
    const ncclResult_t status = ncclSend(sent.vector, count, type, sent.peer, (*communicators_)[rank], stream);
    if (status != ncclSuccess) return status;
    return ncclRecv(received.vector, count, type, received.peer, (*communicators_)[rank], stream);
  }

  void issue(const Buffers& buffers) override {
    check_nccl(ncclGroupStart(), "beginning a group");
    ncclResult_t status = ncclSuccess;
    for (Rank rank = 0; rank < ranks() && status == ncclSuccess; ++rank) status = issue(buffers, rank);
    const ncclResult_t ended = ncclGroupEnd();  // also after a failure, or the group stays open
    const std::string doing =
        std::string(name(call_.collective)) + " of " + std::to_string(problem().count) + " elements";
    check_nccl(status, doing);
    check_nccl(ended, doing);
  }

  const NcclCall call_;
  const std::shared_ptr<Communicators> communicators_;
  Registrations registrations_;
};

}  // namespace

std::optional<std::string> nccl_refuses(const Problem& problem, const NcclCall& call) {
  const harness::Devices& devices = *problem.devices;
  const std::size_t count = problem.count;
  std::vector<int> gpus;
  for (Rank rank = 0; rank < devices.size(); ++rank) {
    const std::optional<int> gpu = harness::gpu_if_any(devices[rank]);
    if (!gpu) return "NCCL takes GPUs only, and " + devices[rank].name() + " is none";
    for (const int other : gpus) {
      if (other == *gpu) return "NCCL takes one rank per GPU, and several are on GPU " + std::to_string(other);
    }
    gpus.push_back(*gpu);
  }
  if (has_slices(call.collective) && count % gpus.size() != 0) {
    return "NCCL takes slices of one size, and " + std::to_string(count) + " elements are none for " +
           std::to_string(gpus.size()) + " ranks";
  }
  if (differs_by_rank(call.collective) && problem.buffers.at(0).input.empty()) {
    return "NCCL cannot receive where it sends from; take --placement=out_of_place";
  }
  if (call.registers && !can_register) {
    return "this build is of NCCL " + std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) +
           ", and only 2.19 or later registers vectors";
  }
  return std::nullopt;
}

harness::Buffer nccl_allocate(harness::Device& device, std::size_t bytes) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  if (!harness::gpu_if_any(device)) return device.allocate(bytes);
  const auto take = [&](void** memory) {
    const ncclResult_t status = ncclMemAlloc(memory, bytes);
    if (status == ncclSuccess) return cudaSuccess;
    // NCCL does not say that there was not so much.
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess && free < bytes) return cudaErrorMemoryAllocation;
    check_nccl(status, device.name() + ": taking " + std::to_string(bytes) + " bytes");
    return cudaErrorUnknown;
  };
  return harness::allocate_by(device, bytes, {take, [](void* memory) { ncclMemFree(memory); }});
#else
  return device.allocate(bytes);
#endif
}

std::unique_ptr<Program> prepare_nccl(const Problem& problem, const NcclCall& call) {
  return std::make_unique<NcclProgram>(problem, call);
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return std::to_string(version / 10000) + '.' + std::to_string(version % 10000 / 100) + '.' +
         std::to_string(version % 100);
}

}  // namespace allreduce
