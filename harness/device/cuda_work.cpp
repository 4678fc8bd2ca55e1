// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda_work.hpp"

#include "harness/device/cuda_native.hpp"
#include "harness/device/work_kernels.hpp"

namespace harness {

namespace {

using kernels::BrakeTimes;

class GpuBrake : public Brake {
 public:
  GpuBrake(Stream& stream, double factor)
      : stream_(stream), extra_(factor - 1), memory_(stream.device().allocate(sizeof(BrakeTimes))) {
    const BrakeTimes none{};
    stream_.copy(&none, memory_.data(), sizeof none);
    stream_.sync();
  }

  void begin() override {
    use_gpu(gpu_of(stream_.device()));
    check_cuda(kernels::launch_look_at_clock(times(), native_stream(stream_)), doing());
  }
  void end() override {
    use_gpu(gpu_of(stream_.device()));
    check_cuda(kernels::launch_waste(times(), extra_, native_stream(stream_)), doing());
  }
  double wasted_seconds() const override {
    BrakeTimes now{};
    stream_.copy(memory_.data(), &now, sizeof now);
    stream_.sync();
    return static_cast<double>(now.wasted) / 1e9;
  }

 private:
  BrakeTimes* times() const { return reinterpret_cast<BrakeTimes*>(memory_.data()); }
  std::string doing() const { return stream_.device().name() + ": making it slow"; }

  Stream& stream_;
  const double extra_;
  const Buffer memory_;
};

}  // namespace

void narrow_on_gpu(Stream& stream, const float* from, Bfloat16* to, std::size_t count) {
  use_gpu(gpu_of(stream.device()));
  check_cuda(kernels::launch_narrow(from, to, count, native_stream(stream)),
             stream.device().name() + ": making bfloat16 of " + std::to_string(count) + " elements");
}

void widen_on_gpu(Stream& stream, const Bfloat16* from, float* to, std::size_t count) {
  use_gpu(gpu_of(stream.device()));
  check_cuda(kernels::launch_widen(from, to, count, native_stream(stream)),
             stream.device().name() + ": making floats of " + std::to_string(count) + " elements of bfloat16");
}

std::unique_ptr<Brake> make_gpu_brake(Stream& stream, double factor) {
  return std::make_unique<GpuBrake>(stream, factor);
}

}  // namespace harness
