// SPDX-License-Identifier: Apache-2.0
#include "harness/device/brake.hpp"

#include "harness/clock.hpp"
#include "harness/device/cpu.hpp"
#include "harness/device/cuda.hpp"
#include "harness/device/cuda_work.hpp"

namespace harness {

namespace {

class CpuBrake : public Brake {
 public:
  CpuBrake(Stream& stream, double factor) : stream_(stream), factor_(factor) {}

  void begin() override {
    run(stream_, [state = state_] { state->began = steady_seconds(); });
  }
  void end() override {
    run(stream_, [state = state_, factor = factor_] {
      const double begin = steady_seconds(), until = begin + (factor - 1) * (begin - state->began);
      double now = begin;
      while (now < until) now = steady_seconds();
      state->wasted += now - begin;
    });
  }
  double wasted_seconds() const override { return state_->wasted; }

 private:
  struct State {  // of the stream's worker
    double began = 0, wasted = 0;
  };
  Stream& stream_;
  const double factor_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

std::unique_ptr<Brake> make_brake(Stream& stream, double factor) {
  if (is_gpu(stream.device())) return make_gpu_brake(stream, factor);
  return std::make_unique<CpuBrake>(stream, factor);
}

}  // namespace harness
