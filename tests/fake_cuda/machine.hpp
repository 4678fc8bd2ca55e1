// SPDX-License-Identifier: Apache-2.0
// A machine of several GPUs that are not there: the state behind the fake CUDA libraries. Work is a graph of nodes,
// ordered by streams and events alone; a seeded scheduler picks at random among all that is ready, a little at each
// call, so that a missing event gives a wrong answer under some seed and the seed gives it again. Whatever a correct
// program never does ends the process with a line that says what it was.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace fake {

inline constexpr int processors = 2, threads_of_processor = 1024;  // of every GPU

// Says what the program did wrong, and ends it.
[[noreturn]] void misuse(const std::string& what);

struct Access {
  const void* begin;
  std::size_t bytes;
};

// What a piece of work does, and how often it may be done: a node of a graph is run at each launch.
// Kernels that wait for each other are done bit by bit: `begin` gives what does the next bit, and tells whether it was
// the last.
using Bits = std::function<bool(std::mt19937_64&)>;
struct Work {
  std::function<void()> run;
  std::function<Bits()> begin = {};
};

struct Node {
  Work work;
  int stream_id = 0;  // whose work it is
  int gpu = 0;
  std::vector<std::shared_ptr<Node>> after;
  bool done = false;
  bool stuck = false;  // never ends
  bool late = false;   // done when nothing else can be
  Bits bits = {};      // of work that has begun
};
using NodePointer = std::shared_ptr<Node>;

struct Capture;

struct Stream {
  int id = 0;
  int gpu = 0;
  bool alive = true;
  NodePointer last;                   // of the work that it was given
  std::shared_ptr<Capture> capture;   // that it takes part in
  std::vector<std::size_t> captured;  // nodes of the capture that its next work comes after
};

struct Event {
  int gpu = 0;
  bool timed = false;
  bool alive = true;
  bool recorded = false;
  NodePointer node;                  // the last record; passed once it is done
  std::shared_ptr<Capture> capture;  // when recorded inside one
  std::size_t captured = 0;
  std::shared_ptr<double> passed_at = std::make_shared<double>(0);
};

// The nodes of a graph, each with those it comes after.
struct Capture {
  struct Part {
    Work work;
    int stream_id, gpu;
    std::vector<std::size_t> after;
  };
  std::vector<Part> parts;
  Stream* origin = nullptr;
  std::vector<Stream*> streams;
  bool invalid = false;
};

class Machine {
 public:
  Machine();
  ~Machine();
  static Machine& instance();

  // As the variables FAKE_CUDA_* say: GPUS (8), PEERS (all, none, or pairs such as 0-1,2-3), MEMORY in bytes of each
  // GPU, CAPABILITY, SEED, FAIL (function:n:code: its n-th call fails so), CORRUPT (0>1: copies from GPU 0 to 1 arrive
  // wrong), HANG (n: the n-th copy never ends), LATE (n: the n-th kernel begins when nothing else can be done).
  void configure();
  void reseed(std::uint64_t seed) {
    random_.seed(seed);
    weights_.clear();
  }

  std::recursive_mutex mutex;
  int gpus = 8;
  std::size_t memory_bytes = std::size_t{1} << 30U;
  int capability = 9;  // the major number of what its GPUs can compute
  int current = 0;

  // Every call begins here: an injected failure, or success; runs some of what is ready.
  cudaError_t enter(const char* function);
  cudaError_t fail(cudaError_t status) { return last_error = status; }
  cudaError_t last_error = cudaSuccess;

  Stream* make_stream();
  Stream* find(cudaStream_t handle);  // null is the current GPU's default stream
  void destroy(Stream* stream);
  Event* make_event(bool timed);
  Event* find(cudaEvent_t handle);
  void destroy(Event* event);

  // Gives work to a stream, or to the capture that it takes part in.
  void issue(Stream& stream, Work work, const std::vector<NodePointer>& also_after = {}, bool stuck = false);
  // One piece of work that is part of several streams: it comes after all that they have, and before all they get.
  void issue_jointly(const std::vector<Stream*>& streams, Work work);
  NodePointer push(int stream_id, int gpu, Work work, std::vector<NodePointer> after);
  void run_until(const std::function<bool()>& reached);
  void run_all_of(int gpu);
  bool step();

  void* allocate(std::size_t bytes, int gpu);  // gpu -1: pinned host memory; null when there is not so much
  void release(void* begin, int gpu);
  std::size_t used(int gpu) const;
  // The GPU of an address, -1 for pinned memory, nothing for other host memory. The range must lie in one live
  // allocation, or outside of all.
  std::optional<int> owner(Access access, const std::string& who) const;
  // A kernel or copy on `gpu` touches this.
  void require_reach(int gpu, Access access, const std::string& who) const;

  std::set<std::pair<int, int>> links, enabled;  // (reader, owner)
  std::set<std::pair<int, int>> corrupt;         // (from, to)
  int copies = 0, hanging_copy = 0;
  int kernels = 0, late_kernel = 0;
  std::map<int, std::size_t> resident;  // threads of kernels that wait for each other, on each GPU now

 private:
  struct Allocation {
    std::size_t bytes;
    int gpu;
    bool live;
    std::byte* first;  // page of it
    std::size_t pages;
  };
  std::map<std::uintptr_t, Allocation> allocations_;
  std::byte* space_ = nullptr;
  std::size_t taken_ = 0;
  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<void*, std::unique_ptr<Event>> events_;
  std::map<int, std::unique_ptr<Stream>> defaults_;
  std::vector<NodePointer> pending_;
  std::map<int, int> weights_;  // of a stream: how eagerly its work is taken now
  std::mt19937_64 random_;
  std::map<std::string, int> calls_;
  std::string failing_;
  int failing_call_ = 0, failing_code_ = 0;
  bool lost_ = false;
  bool kept_ = false;  // a call failed that was to free memory
  int next_stream_ = 1;
};

// Kernels by their mangled names, compiled for the host; binds the arguments of a launch.
struct Launch {
  dim3 grid, block;
  int gpu;
};
std::optional<std::function<Work(const Launch&)>> bind_kernel(const std::string& name, void** arguments);

}  // namespace fake
