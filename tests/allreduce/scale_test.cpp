// SPDX-License-Identifier: Apache-2.0
// Schedules of thousands of ranks: memory and work are counted, so that the bounds hold on any machine.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "allreduce/algorithms.hpp"
#include "allreduce/cost.hpp"
#include "allreduce/verify.hpp"
#include "tests/sanitized.hpp"

namespace {

std::atomic<std::size_t> bytes_now{0};
std::atomic<std::size_t> bytes_most{0};

void* counted(std::size_t bytes) noexcept {
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) return nullptr;
  const std::size_t now = bytes_now += malloc_usable_size(memory);
  std::size_t most = bytes_most;
  while (now > most && !bytes_most.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void* counted_or_thrown(std::size_t bytes) {
  if (void* memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}

void uncounted(void* memory) {
  if (memory != nullptr) bytes_now -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_or_thrown(bytes); }
void* operator new[](std::size_t bytes) { return counted_or_thrown(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { uncounted(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, std::size_t) noexcept { uncounted(memory); }

namespace allreduce {
namespace {

struct Large {
  const char* algorithm;
  int ranks;
  std::size_t megabytes;
  friend std::ostream& operator<<(std::ostream& out, const Large& large) {
    return out << large.algorithm << " of " << large.ranks << " ranks";
  }
};

class LargeSchedules : public testing::TestWithParam<Large> {};

TEST_P(LargeSchedules, AreBuiltAndProvedInNearLinearWorkAndLittleMemory) {
  const Large& large = GetParam();
  const std::size_t before = bytes_now;
  bytes_most = before;
  const Schedule schedule = find_algorithm(large.algorithm)->build({large.ranks});
  const Verdict verdict = verify(schedule);
  EXPECT_TRUE(verdict.proved) << verdict.reason;
  EXPECT_LT((bytes_most - before) >> 20, large.megabytes);
  EXPECT_GT(bytes_most, before);
  // A few looks at each op; those of the halving algorithms grow with log2 n.
  EXPECT_LT(verdict.work, 16 * schedule.ops.size());
  EXPECT_GE(verdict.work, schedule.ops.size());
}

constexpr int fewer = sanitized ? 8 : 1;

INSTANTIATE_TEST_SUITE_P(Catalogue, LargeSchedules,
                         testing::Values(Large{"ring", 1024 / fewer, 1024}, Large{"two_shot", 512 / fewer, 512},
                                         Large{"tree", 16384 / fewer, 64}, Large{"double_tree", 16384 / fewer, 64},
                                         Large{"parameter_server", 16384 / fewer, 64},
                                         Large{"recursive_doubling", 16384 / fewer, 512},
                                         Large{"halving_doubling", 16384 / fewer, 512},
                                         Large{"torus", 256 / fewer, 256}));

}  // namespace
}  // namespace allreduce
