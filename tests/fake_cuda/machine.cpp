// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_cuda/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace fake {

namespace {

constexpr unsigned char fresh = 0xA5;
constexpr std::size_t alignment = 512, page = 4096, address_space = std::size_t{1} << 44U;

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv((std::string("FAKE_CUDA_") + name).c_str());
  return value ? value : otherwise;
}

std::set<std::pair<int, int>> parse_pairs(const std::string& text, char between, bool both_ways) {
  std::set<std::pair<int, int>> pairs;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto middle = word.find(between);
    if (middle == std::string::npos) continue;
    const int a = std::stoi(word.substr(0, middle)), b = std::stoi(word.substr(middle + 1));
    pairs.emplace(a, b);
    if (both_ways) pairs.emplace(b, a);
  }
  return pairs;
}

bool is_sticky(int code) { return code >= 700 && code < 720; }

}  // namespace

void misuse(const std::string& what) {
  std::fprintf(stderr, "fake CUDA: %s\n", what.c_str());
  std::abort();
}

Machine::Machine() { configure(); }

Machine::~Machine() {
  std::size_t leaked = 0;
  for (const auto& [begin, allocation] : allocations_) leaked += allocation.live ? 1 : 0;
  if (kept_) leaked = 0;
  if (leaked + streams_.size() + events_.size() == 0 || lost_) return;
  std::fprintf(stderr, "fake CUDA: left behind: %zu allocations, %zu streams, %zu events\n", leaked, streams_.size(),
               events_.size());
  std::fflush(nullptr);
  std::_Exit(86);
}

Machine& Machine::instance() {
  static Machine machine;
  return machine;
}

void Machine::configure() {
  gpus = std::stoi(setting("GPUS", "8"));
  memory_bytes = std::stoull(setting("MEMORY", "1073741824"));
  capability = std::stoi(setting("CAPABILITY", "9"));
  reseed(std::stoull(setting("SEED", "1")));
  links.clear();
  enabled.clear();
  const std::string peers = setting("PEERS", "all");
  if (peers == "all") {
    for (int a = 0; a < gpus; ++a) {
      for (int b = 0; b < gpus; ++b) {
        if (a != b) links.emplace(a, b);
      }
    }
  } else {
    links = parse_pairs(peers, '-', true);
  }
  corrupt = parse_pairs(setting("CORRUPT", ""), '>', false);
  copies = 0;
  hanging_copy = std::stoi(setting("HANG", "0"));
  kernels = 0;
  late_kernel = std::stoi(setting("LATE", "0"));
  calls_.clear();
  lost_ = kept_ = false;
  failing_.clear();
  std::istringstream words(setting("FAIL", ""));
  std::string call, code;
  if (std::getline(words, failing_, ':') && std::getline(words, call, ':') && std::getline(words, code)) {
    failing_call_ = std::stoi(call);
    failing_code_ = std::stoi(code);
  }
}

cudaError_t Machine::enter(const char* function) {
  for (auto some = random_() % 3; some > 0 && step(); --some) {
  }
  if (lost_) return fail(static_cast<cudaError_t>(failing_code_));
  if (failing_ == function && ++calls_[failing_] == failing_call_) {
    lost_ = is_sticky(failing_code_);
    kept_ = failing_ == "cudaFree" || failing_ == "cudaFreeHost" || failing_ == "cudaSetDevice";
    return fail(static_cast<cudaError_t>(failing_code_));
  }
  return cudaSuccess;
}

Stream* Machine::make_stream() {
  auto stream = std::make_unique<Stream>();
  stream->id = next_stream_++;
  stream->gpu = current;
  Stream* made = stream.get();
  streams_.emplace(made, std::move(stream));
  return made;
}

Stream* Machine::find(cudaStream_t handle) {
  if (!handle) {
    auto& stream = defaults_[current];
    if (!stream) {
      stream = std::make_unique<Stream>();
      stream->id = -1 - current;
      stream->gpu = current;
    }
    return stream.get();
  }
  const auto found = streams_.find(handle);
  if (found == streams_.end()) misuse("a stream that was destroyed, or never made, is used");
  return found->second.get();
}

void Machine::destroy(Stream* stream) {
  if (stream->capture) misuse("a stream is destroyed while it is captured");
  streams_.erase(stream);
}

Event* Machine::make_event(bool timed) {
  auto event = std::make_unique<Event>();
  event->gpu = current;
  event->timed = timed;
  Event* made = event.get();
  events_.emplace(made, std::move(event));
  return made;
}

Event* Machine::find(cudaEvent_t handle) {
  const auto found = events_.find(handle);
  if (found == events_.end()) misuse("an event that was destroyed, or never made, is used");
  return found->second.get();
}

void Machine::destroy(Event* event) { events_.erase(event); }

void Machine::issue(Stream& stream, Work work, const std::vector<NodePointer>& also_after, bool stuck) {
  if (stream.capture) {
    stream.capture->parts.push_back({std::move(work), stream.id, stream.gpu, stream.captured});
    stream.captured = {stream.capture->parts.size() - 1};
    return;
  }
  std::vector<NodePointer> after = also_after;
  if (stream.last) after.push_back(stream.last);
  stream.last = push(stream.id, stream.gpu, std::move(work), std::move(after));
  stream.last->stuck = stuck;
}

void Machine::issue_jointly(const std::vector<Stream*>& streams, Work work) {
  Stream& first = *streams.front();
  if (first.capture) {
    std::set<std::size_t> after;
    for (const Stream* stream : streams) {
      if (stream->capture != first.capture) misuse("a collective is captured on some of its streams only");
      after.insert(stream->captured.begin(), stream->captured.end());
    }
    first.capture->parts.push_back({std::move(work), first.id, first.gpu, {after.begin(), after.end()}});
    for (Stream* stream : streams) stream->captured = {first.capture->parts.size() - 1};
    return;
  }
  std::vector<NodePointer> after;
  for (const Stream* stream : streams) after.push_back(stream->last);
  const NodePointer node = push(first.id, first.gpu, std::move(work), std::move(after));
  for (Stream* stream : streams) stream->last = node;
}

NodePointer Machine::push(int stream_id, int gpu, Work work, std::vector<NodePointer> after) {
  auto node = std::make_shared<Node>();
  node->work = std::move(work);
  node->stream_id = stream_id;
  node->gpu = gpu;
  std::erase_if(after, [](const NodePointer& before) { return !before || before->done; });
  node->after = std::move(after);
  pending_.push_back(node);
  return node;
}

// Streams are favoured and starved for a while each, so that one may run far ahead of another.
bool Machine::step() {
  std::vector<std::pair<std::size_t, int>> ready;
  std::uint64_t sum = 0;
  std::optional<std::size_t> late;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    Node& node = *pending_[i];
    if (node.stuck) continue;
    std::erase_if(node.after, [](const NodePointer& before) { return before->done; });
    if (!node.after.empty()) continue;
    if (node.late) {
      late = i;
      continue;
    }
    auto [weight, fresh_weight] = weights_.try_emplace(node.stream_id, 1);
    if (fresh_weight || random_() % 16 == 0) weight->second = random_() % 2 == 0 ? 1 : 500;
    ready.emplace_back(i, weight->second);
    sum += weight->second;
  }
  if (ready.empty()) {
    if (!late) return false;
    pending_[*late]->late = false;
    return true;
  }
  std::uint64_t pick = random_() % sum;
  std::size_t chosen = 0;
  while (pick >= static_cast<std::uint64_t>(ready[chosen].second)) pick -= ready[chosen++].second;
  const std::size_t at = ready[chosen].first;
  const NodePointer node = pending_[at];
  if (node->work.begin) {
    if (!node->bits) node->bits = node->work.begin();
    if (!node->bits(random_)) return true;
    node->bits = {};
  } else {
    node->work.run();
  }
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(at));
  node->done = true;
  return true;
}

void Machine::run_until(const std::function<bool()>& reached) {
  while (!reached() && step()) {
  }
}

void Machine::run_all_of(int gpu) {
  run_until([&] {
    return std::none_of(pending_.begin(), pending_.end(),
                        [&](const NodePointer& node) { return node->gpu == gpu && !node->stuck; });
  });
}

void* Machine::allocate(std::size_t bytes, int gpu) {
  if (gpu >= 0 && used(gpu) + bytes > memory_bytes) return nullptr;
  // Ends where a page ends that nobody may touch, and has addresses of its own for ever: what is freed stays forbidden.
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  const std::size_t pages = (whole + page - 1) / page * page;
  if (!space_) {
    space_ = static_cast<std::byte*>(
        mmap(nullptr, address_space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (space_ == MAP_FAILED) misuse("the machine has no addresses to give");
  }
  std::byte* const first = space_ + taken_;
  if (taken_ + pages + page > address_space || mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) {
    misuse("the addresses of the fake machine are spent");
  }
  taken_ += pages + page;
  std::memset(first, fresh, pages);
  std::byte* const begin = first + (pages - whole);
  allocations_[reinterpret_cast<std::uintptr_t>(begin)] = {bytes, gpu, true, first, pages};
  return begin;
}

void Machine::release(void* begin, int gpu) {
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(begin));
  if (found == allocations_.end()) misuse("memory is freed that was never taken");
  if (!found->second.live) misuse("memory is freed twice");
  if ((found->second.gpu < 0) != (gpu < 0)) misuse("memory is freed by the wrong function");
  found->second.live = false;
  // Mapped anew, so that the pages go back to the host.
  mmap(found->second.first, found->second.pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

std::size_t Machine::used(int gpu) const {
  std::size_t bytes = 0;
  for (const auto& [begin, allocation] : allocations_) {
    if (allocation.live && allocation.gpu == gpu) bytes += allocation.bytes;
  }
  return bytes;
}

std::optional<int> Machine::owner(Access access, const std::string& who) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(access.begin);
  auto after = allocations_.upper_bound(begin);
  if (after == allocations_.begin()) return std::nullopt;
  const auto& [start, allocation] = *--after;
  if (begin >= start + allocation.bytes) return std::nullopt;
  if (!allocation.live) misuse(who + " touches memory that was freed");
  if (begin + access.bytes > start + allocation.bytes) {
    misuse(who + " touches " + std::to_string(begin + access.bytes - start - allocation.bytes) +
           " bytes behind an allocation of " + std::to_string(allocation.bytes));
  }
  return allocation.gpu;
}

void Machine::require_reach(int gpu, Access access, const std::string& who) const {
  if (access.bytes == 0) return;
  const auto found = owner(access, who);
  if (!found) misuse(who + " on GPU " + std::to_string(gpu) + " touches memory that no GPU can reach");
  if (*found < 0 || *found == gpu || enabled.contains({gpu, *found})) return;
  misuse(who + " on GPU " + std::to_string(gpu) + " touches memory of GPU " + std::to_string(*found) +
         ", to which it has no access");
}

}  // namespace fake
