// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_cuda/fibers.hpp"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/fake_cuda/host_kernel.hpp"

thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace fake {

namespace {

constexpr std::size_t stack_bytes = 32 << 10;
constexpr long long cycles_of_a_look = 1'000'000;  // a millisecond at the rate that the GPUs are said to have
constexpr unsigned most_at_once = 64;

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
  dim3 block, thread;
  bool ended = false, looked = false;
  long long clock = 0;
};

class Fibers {
 public:
  Fibers(const Launch& launch, std::function<void()> thread)
      : launch_(launch),
        body_(std::move(thread)),
        size_(launch.block.x),
        fibers_(std::size_t{launch.grid.x} * launch.block.x),
        blocks_(launch.grid.x) {
    std::size_t& resident = Machine::instance().resident[launch.gpu];
    resident += fibers_.size();
    if (resident > std::size_t{processors} * threads_of_processor) {
      misuse("kernels that wait for each other do not fit on GPU " + std::to_string(launch.gpu) + " at once");
    }
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      fiber.stack.reset(new char[stack_bytes]);
      fiber.block = {static_cast<unsigned>(i / size_), 0, 0};
      fiber.thread = {static_cast<unsigned>(i % size_), 0, 0};
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = stack_bytes;
      fiber.context.uc_link = &outside_;
      makecontext(&fiber.context, &Fibers::enter, 0);
      ready_.push_back(i);
    }
  }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers() { Machine::instance().resident[launch_.gpu] -= fibers_.size(); }

  // Whether all have ended.
  bool go_on(std::mt19937_64& random) {
    for (auto some = 1 + random() % most_at_once; some > 0 && !ready_.empty(); --some) {
      const std::size_t drawn = random() % ready_.size();
      Fiber& fiber = fibers_[current_ = ready_[drawn]];
      std::swap(ready_[drawn], ready_.back());
      ready_.pop_back();
      fiber.looked = false;
      running = this;
      gridDim = launch_.grid;
      blockDim = launch_.block;
      blockIdx = fiber.block;
      threadIdx = fiber.thread;
      swapcontext(&outside_, &fiber.context);
      if (!fiber.looked) continue;
      ready_.push_back(current_);
      break;
    }
    if (!ready_.empty()) return false;
    if (!std::all_of(fibers_.begin(), fibers_.end(), [](const Fiber& fiber) { return fiber.ended; })) {
      misuse("some threads of a block meet, and others have ended");
    }
    return true;
  }

  int meet(int vote) {
    const std::size_t mine = current_;
    Block& block = blocks_[fibers_[mine].block.x];
    block.vote |= vote;
    block.waiting.push_back(mine);
    if (block.waiting.size() == size_) {
      block.result = std::exchange(block.vote, 0);
      ready_.insert(ready_.end(), block.waiting.begin(), block.waiting.end());
      block.waiting.clear();
    }
    leave(fibers_[mine]);
    return block.result;
  }

  long long look() {
    Fiber& fiber = fibers_[current_];
    fiber.looked = true;
    leave(fiber);
    return fiber.clock += cycles_of_a_look;
  }

  static thread_local Fibers* running;

 private:
  struct Block {
    std::vector<std::size_t> waiting;
    int vote = 0, result = 0;
  };

  static void enter() {
    Fibers& all = *running;
    const std::size_t mine = all.current_;
    all.body_();
    all.fibers_[mine].ended = true;
  }

  void leave(Fiber& fiber) { swapcontext(&fiber.context, &outside_); }

  const Launch launch_;
  const std::function<void()> body_;
  const std::size_t size_;  // of a block
  std::vector<Fiber> fibers_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> ready_;
  ucontext_t outside_{};
  std::size_t current_ = 0;
};

thread_local Fibers* Fibers::running = nullptr;

}  // namespace

Bits begin_fibers(const Launch& launch, std::function<void()> thread) {
  return [fibers = std::make_shared<Fibers>(launch, std::move(thread))](std::mt19937_64& random) {
    return fibers->go_on(random);
  };
}

}  // namespace fake

void __syncthreads() { fake::Fibers::running->meet(0); }
int __syncthreads_or(int vote) { return fake::Fibers::running->meet(vote); }
long long clock64() { return fake::Fibers::running->look(); }
