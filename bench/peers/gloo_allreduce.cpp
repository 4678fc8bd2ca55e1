// SPDX-License-Identifier: Apache-2.0
// Gloo's all-reduces over TCP on this host, a process a rank: gloo_allreduce ALGORITHM RANKS FOLDER BYTES SAMPLES RUNS.
// The ranks meet in FOLDER, which is empty.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "bench/peers/peer.hpp"

namespace {

// Keeps to a core of its own where there are enough.
void pin(int rank, int ranks) {
  cpu_set_t usable, own;
  sched_getaffinity(0, sizeof usable, &usable);
  if (CPU_COUNT(&usable) < ranks) return;
  CPU_ZERO(&own);
  for (int core = 0, seen = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable) && seen++ == rank) CPU_SET(core, &own);
  }
  sched_setaffinity(0, sizeof own, &own);
}

void run(int rank, int ranks, const std::string& algorithm, const char* folder, const peer::Work& work) {
  pin(rank, ranks);
  gloo::transport::tcp::attr loopback("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(loopback);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);

  std::vector<float> data(work.count);
  std::function<void()> all_reduce;
  std::unique_ptr<gloo::Algorithm> prepared;
  if (algorithm == "new_ring") {
    all_reduce = [&] {
      gloo::AllreduceOptions options(context);
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      options.setOutput(data.data(), data.size());
      options.setReduceFunction(
          [](void* out, const void* a, const void* b, std::size_t count) { gloo::sum<float>(out, a, b, count); });
      gloo::allreduce(options);
    };
  } else {
    const std::vector<float*> pointers = {data.data()};
    const int count = static_cast<int>(work.count);
    if (algorithm == "ring_chunked") {
      prepared = std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, count);
    } else if (algorithm == "halving_doubling") {
      prepared = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, count);
    } else {
      throw std::runtime_error("no such algorithm: " + algorithm);
    }
    all_reduce = [&] { prepared->run(); };
  }
  const auto barrier = [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  std::vector<double> seconds = peer::measure(work, rank, ranks, data, all_reduce, barrier);
  gloo::AllreduceOptions slowest(context);
  slowest.setOutput(seconds.data(), seconds.size());
  slowest.setReduceFunction(
      [](void* out, const void* a, const void* b, std::size_t count) { gloo::max<double>(out, a, b, count); });
  gloo::allreduce(slowest);
  if (rank == 0) peer::print(seconds);
  barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int ranks = std::atoi(argv[2]);
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    try {
      run(rank, ranks, argv[1], argv[3], peer::work_of(argv + 4));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "gloo_allreduce: %s\n", error.what());
      return 1;
    }
    return 0;
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed += status != 0;
  return failed == 0 ? 0 : 1;
}
