// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cpu.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <variant>

#include "harness/device/reduce.hpp"
#include "harness/machine.hpp"

namespace harness {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t bytes_worth_a_look = 1 << 20;  // less is no danger, and looking reads several files
constexpr std::byte fresh{0xFF};
// How long a waiting worker looks before it sleeps: a little more than it takes to wake one up.
constexpr std::chrono::microseconds spin_time{30};
// How long a worker looks for another inside a task before it lets other programs have its core.
constexpr std::chrono::milliseconds longest_spin{1};
constexpr int looks_between_clocks = 100;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A counter that a stream moves forward and others wait for: the state behind an Event. The position it has reached is
// published by a release store; who sleeps is woken only when somebody does.
class Mark : public Event::State {
 public:
  // `part` is the part of a recording that this belongs to, if any.
  explicit Mark(const void* stream, const void* part = nullptr, bool timed = false)
      : stream_(stream), part_(part), timed_(timed) {}

  void pass(std::uint64_t position) {
    if (timed_) passed_at_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    reached_.store(position, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      const std::lock_guard lock(mutex_);
      awake_.notify_all();
    }
  }
  bool passed(std::uint64_t position) const { return reached_.load(std::memory_order_acquire) >= position; }

  // False when the deadline passes first.
  bool wait(std::uint64_t position, bool spin, Clock::time_point deadline) {
    if (passed(position)) return true;
    if (spin) {
      const auto until = Clock::now() + spin_time;
      while (Clock::now() < until) {
        for (int i = 0; i < 32; ++i) {
          if (passed(position)) return true;
          pause_briefly();
        }
      }
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const bool in_time =
        awake_.wait_until(lock, deadline, [&] { return reached_.load(std::memory_order_seq_cst) >= position; });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return in_time;
  }

  const void* stream() const { return stream_; }
  const void* part() const { return part_; }
  bool timed() const { return timed_; }
  Clock::duration passed_at() const { return Clock::duration(passed_at_.load(std::memory_order_relaxed)); }

 private:
  const void* stream_;
  const void* part_;
  const bool timed_;
  std::atomic<std::uint64_t> reached_{0};
  std::atomic<Clock::rep> passed_at_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable awake_;
};

using MarkPointer = std::shared_ptr<Mark>;

struct Copy {
  const void* from;
  void* to;
  std::size_t bytes;
};
struct Reduce {
  const void* from;
  void* into;
  std::size_t count;
  Reduction reduction;
};
struct Pass {
  MarkPointer mark;
  std::uint64_t position;
};
struct Wait {
  MarkPointer mark;
  std::uint64_t position;
};
struct Task {
  std::function<void()> function;
};
struct Replay;
using Command = std::variant<Copy, Reduce, Pass, Wait, Task, Replay>;

// One stream's part of a recording.
struct Part {
  std::vector<Command> commands;
  MarkPointer mark;                // behind the untimed events of this part
  std::vector<std::size_t> marks;  // position p on it passes when commands 0 to marks[p - 1] are done
  bool forked = false;             // it waits for another stream of the recording, or is the anchor
  std::size_t joined = 0;          // commands that another stream of the recording waits for
};

struct Replay {
  std::shared_ptr<const Part> part;
  std::uint64_t base;  // added to every position
};

class CpuStream;

// What a set's streams share: how they wait, and what they record into.
struct Context {
  bool spin = false;
  std::chrono::duration<double> timeout{60};
  std::function<void(const TimedOut&)> on_timeout;
  struct Draft {
    CpuStream* anchor = nullptr;
    std::vector<std::pair<CpuStream*, std::shared_ptr<Part>>> parts;
  };
  Draft* draft = nullptr;  // while recording

  Clock::time_point deadline() const { return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout); }
};

// What the worker thread and its stream share; held by both, so that a worker that is stuck can be left behind.
struct Queue {
  std::mutex mutex;
  std::condition_variable filled;
  std::vector<Command> commands;
  std::atomic<bool> any{false};
  bool closed = false;
  std::exception_ptr failure;  // guarded by mutex
  std::atomic<bool> failed{false};

  void push(Command command) {
    const std::lock_guard lock(mutex);
    commands.push_back(std::move(command));
    any.store(true, std::memory_order_release);
    filled.notify_one();
  }
  void fail(std::exception_ptr why) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::move(why);
    failed.store(true, std::memory_order_relaxed);
  }
};

class Worker {
 public:
  Worker(std::shared_ptr<Queue> queue, std::shared_ptr<Context> context, std::string device)
      : queue_(std::move(queue)), context_(std::move(context)), device_(std::move(device)) {}

  void operator()() {
    std::vector<Command> batch;
    while (next(batch)) {
      for (const Command& command : batch) execute(command, 0);
      batch.clear();
    }
  }

 private:
  bool next(std::vector<Command>& batch) {
    if (context_->spin) {
      const auto until = Clock::now() + spin_time;
      while (!queue_->any.load(std::memory_order_acquire) && Clock::now() < until) pause_briefly();
    }
    std::unique_lock lock(queue_->mutex);
    queue_->filled.wait(lock, [&] { return !queue_->commands.empty() || queue_->closed; });
    batch.swap(queue_->commands);
    queue_->any.store(false, std::memory_order_relaxed);
    return !batch.empty();
  }

  void execute(const Command& command, std::uint64_t base) {
    if (const auto* pass = std::get_if<Pass>(&command)) return pass->mark->pass(pass->position + base);
    if (const auto* replay = std::get_if<Replay>(&command)) {
      for (const Command& inner : replay->part->commands) execute(inner, replay->base);
      return;
    }
    if (queue_->failed.load(std::memory_order_relaxed)) return;
    try {
      std::visit([&](const auto& work) { perform(work, base); }, command);
    } catch (...) {
      queue_->fail(std::current_exception());
    }
  }

  static void perform(const Copy& work, std::uint64_t) { std::memcpy(work.to, work.from, work.bytes); }
  static void perform(const Reduce& work, std::uint64_t) {
    reduce_on_host(work.from, work.into, work.count, work.reduction);
  }
  static void perform(const Task& work, std::uint64_t) { work.function(); }
  static void perform(const Pass&, std::uint64_t) {}
  static void perform(const Replay&, std::uint64_t) {}
  void perform(const Wait& work, std::uint64_t base) const {
    if (work.mark->wait(work.position + base, context_->spin, context_->deadline())) return;
    throw TimedOut(device_ + " did not get another device's work within " + std::to_string(context_->timeout.count()) +
                   " s");
  }

  std::shared_ptr<Queue> queue_;
  std::shared_ptr<Context> context_;
  std::string device_;
};

class CpuStream : public Stream {
 public:
  CpuStream(Device& device, std::shared_ptr<Context> context, const cpu_set_t* cores)
      : device_(device), context_(std::move(context)), mark_(std::make_shared<Mark>(this)) {
    thread_ = std::thread(Worker(queue_, context_, device.name()));
    if (cores) pthread_setaffinity_np(thread_.native_handle(), sizeof *cores, cores);
  }
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  ~CpuStream() override {
    {
      const std::lock_guard lock(queue_->mutex);
      queue_->closed = true;
      queue_->filled.notify_one();
    }
    if (stuck_) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  void copy(const void* from, void* to, std::size_t bytes) override {
    if (bytes > 0) issue(Copy{from, to, bytes});
  }
  void reduce(const void* from, void* into, std::size_t count, const Reduction& reduction) override {
    if (count > 0) issue(Reduce{from, into, count, reduction});
  }
  void run(std::function<void()> task) { issue(Task{std::move(task)}); }

  Event record(Timing timing) override {
    Part* part = recorded_part();
    const bool timed = timing == Timing::on;
    const MarkPointer mark = timed ? std::make_shared<Mark>(this, part, true) : part ? part->mark : mark_;
    const std::uint64_t position = timed ? 1 : part ? part->marks.size() + 1 : ++position_;
    issue(Pass{mark, position});
    if (part && !timed) part->marks.push_back(part->commands.size());
    return {mark, position};
  }

  void wait(const Event& event) override {
    if (!event) return;
    auto mark = std::dynamic_pointer_cast<Mark>(event.state());
    if (!mark) throw Error("a CPU stream cannot wait for an event of another kind of device");
    if (context_->draft) return wait_in_recording(mark, event.position());
    if (mark->passed(event.position())) return;
    issue(Wait{std::move(mark), event.position()});
  }

  void sync() override {
    try {
      finish();
    } catch (const TimedOut& error) {
      if (context_->on_timeout) context_->on_timeout(error);
      throw;
    }
  }

  Device& device() const override { return device_; }

  void replay(std::shared_ptr<const Part> part, std::uint64_t base) { queue_->push(Replay{std::move(part), base}); }
  Context& context() const { return *context_; }

 private:
  void finish() {
    const Event end = record(Timing::off);
    if (!mark_->wait(end.position(), false, context_->deadline())) {
      stuck_ = true;
      throw TimedOut(device_.name() + " did not finish its work within " + std::to_string(context_->timeout.count()) +
                     " s");
    }
    const std::lock_guard lock(queue_->mutex);
    if (queue_->failure) std::rethrow_exception(queue_->failure);
  }

  void issue(Command command) {
    if (Part* part = recorded_part()) {
      part->commands.push_back(std::move(command));
    } else {
      queue_->push(std::move(command));
    }
  }

  Part* recorded_part() {
    auto* draft = context_->draft;
    if (!draft) return nullptr;
    for (auto& [stream, part] : draft->parts) {
      if (stream == this) return part.get();
    }
    auto part = std::make_shared<Part>();
    part->mark = std::make_shared<Mark>(this, part.get());
    part->forked = draft->anchor == this;
    draft->parts.emplace_back(this, part);
    return part.get();
  }

  void wait_in_recording(const MarkPointer& mark, std::uint64_t position) {
    for (auto& [stream, part] : context_->draft->parts) {
      if (mark->part() != part.get()) continue;
      if (!mark->timed()) part->joined = std::max(part->joined, part->marks[position - 1]);
      Part* own = recorded_part();
      own->forked = true;
      own->commands.emplace_back(Wait{mark, position});
      return;
    }
    throw Error("a stream that is being recorded cannot wait for an event from outside of the recording");
  }

  Device& device_;
  std::shared_ptr<Context> context_;
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  MarkPointer mark_;
  std::uint64_t position_ = 0;
  bool stuck_ = false;
  std::thread thread_;
};

class CpuDevice : public Device {
 public:
  CpuDevice(int index, std::shared_ptr<Context> context, std::optional<cpu_set_t> cores)
      : index_(index), context_(std::move(context)), cores_(cores) {}

  Buffer allocate(std::size_t bytes) override {
    const std::size_t whole_pages = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    if (whole_pages < bytes) throw OutOfMemory(name() + " cannot hold " + std::to_string(bytes) + " bytes");
    if (whole_pages >= bytes_worth_a_look) require_host_memory(whole_pages);
    void* memory = whole_pages == 0 ? nullptr : std::aligned_alloc(page_bytes, whole_pages);
    if (whole_pages > 0 && !memory) throw OutOfMemory(name() + " has no room for " + std::to_string(bytes) + " bytes");
    if (memory) std::memset(memory, std::to_integer<int>(fresh), whole_pages);
    return counted(std::shared_ptr<void>(memory, std::free), bytes);
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CpuStream>(*this, context_, cores_ ? &*cores_ : nullptr);
  }
  std::string name() const override { return "cpu device " + std::to_string(index_); }

 private:
  int index_;
  std::shared_ptr<Context> context_;
  std::optional<cpu_set_t> cores_;
};

class CpuRecording : public Recording {
 public:
  explicit CpuRecording(std::vector<std::pair<CpuStream*, std::shared_ptr<Part>>> parts) : parts_(std::move(parts)) {
    for (const auto& [stream, part] : parts_) stride_ = std::max(stride_, std::uint64_t{part->marks.size()} + 1);
  }
  void launch() override {
    for (const auto& [stream, part] : parts_) stream->replay(part, launches_ * stride_);
    ++launches_;
  }

 private:
  std::vector<std::pair<CpuStream*, std::shared_ptr<Part>>> parts_;
  std::uint64_t stride_ = 1;
  std::uint64_t launches_ = 0;
};

class CpuDevices : public Devices {
 public:
  CpuDevices(int count, const DeviceSettings& settings) {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    sched_getaffinity(0, sizeof usable, &usable);
    std::vector<int> cores;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &usable)) cores.push_back(core);
    }
    const int available = static_cast<int>(cores.size());
    const int everyone = count * settings.sharers;
    threads_ = settings.threads > 0 ? settings.threads : std::max(1, available / everyone);
    oversubscribed_ = everyone * threads_ > available;
    context_->spin = !oversubscribed_;
    context_->timeout = std::chrono::duration<double>(settings.timeout_seconds);
    context_->on_timeout = settings.on_timeout;
    for (int rank = 0; rank < count; ++rank) {
      std::optional<cpu_set_t> own;
      if (!oversubscribed_) {
        own.emplace();
        CPU_ZERO(&*own);
        for (int thread = 0; thread < threads_; ++thread) CPU_SET(cores[rank * threads_ + thread], &*own);
      }
      devices_.emplace_back(rank, context_, own);
    }
  }

  int size() const override { return static_cast<int>(devices_.size()); }
  Device& operator[](int rank) const override { return devices_.at(rank); }
  std::string text() const override { return "cpu:" + std::to_string(size()); }
  int threads() const override { return threads_; }
  bool oversubscribed() const override { return oversubscribed_; }
  const Context& context() const { return *context_; }

  std::unique_ptr<Recording> record(Stream& anchor, const std::function<void()>& issue) override {
    auto* origin = dynamic_cast<CpuStream*>(&anchor);
    if (!origin || &origin->context() != context_.get()) throw Error("the anchor is not a stream of these devices");
    if (context_->draft) throw Error("a recording cannot be made inside another one");
    Context::Draft draft{origin, {}};
    context_->draft = &draft;
    try {
      issue();
    } catch (...) {
      context_->draft = nullptr;
      throw;
    }
    context_->draft = nullptr;
    for (const auto& [stream, part] : draft.parts) {
      if (!part->forked) throw Error(stream->device().name() + " was recorded without waiting for the anchor");
      if (stream != origin && part->joined < part->commands.size()) {
        throw Error(stream->device().name() + " was not joined by the anchor");
      }
    }
    return std::make_unique<CpuRecording>(std::move(draft.parts));
  }

  double seconds_between(const Event& begin, const Event& end) const override {
    const auto first = std::dynamic_pointer_cast<Mark>(begin.state());
    const auto last = std::dynamic_pointer_cast<Mark>(end.state());
    if (!first || !last || !first->timed() || !last->timed()) throw Error("only timed events have a time between them");
    if (first->stream() != last->stream()) throw Error("two events of different streams have no time between them");
    return std::chrono::duration<double>(last->passed_at() - first->passed_at()).count();
  }

 private:
  int threads_ = 1;
  bool oversubscribed_ = false;
  std::shared_ptr<Context> context_ = std::make_shared<Context>();
  mutable std::deque<CpuDevice> devices_;
};

}  // namespace

void run(Stream& stream, std::function<void()> task) {
  auto* cpu = dynamic_cast<CpuStream*>(&stream);
  if (!cpu) throw Error(stream.device().name() + " cannot run a host function");
  cpu->run(std::move(task));
}

bool are_cpu_devices(const Devices& devices) { return dynamic_cast<const CpuDevices*>(&devices) != nullptr; }

Patience::Patience(const Devices& devices) {
  const auto* cpu = dynamic_cast<const CpuDevices*>(&devices);
  if (!cpu) throw Error(devices.text() + " are not CPU devices");
  spin_ = cpu->context().spin;
  timeout_seconds_ = cpu->context().timeout.count();
}

bool Patience::wait_long(const std::atomic<std::uint64_t>& counter, std::uint64_t value) const {
  const auto begin = Clock::now();
  const auto deadline =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds_));
  for (auto now = begin; now < deadline; now = Clock::now()) {
    const bool yields = !spin_ || now - begin > longest_spin;
    for (int look = 0; look < looks_between_clocks; ++look) {
      if (counter.load(std::memory_order_acquire) >= value) return true;
      if (yields) {
        std::this_thread::yield();
      } else {
        pause_briefly();
      }
    }
  }
  return false;
}

void Patience::throw_timed_out(const std::string& names) const {
  throw TimedOut(names + ": no sign within " + std::to_string(timeout_seconds_) + " s");
}

std::unique_ptr<Devices> open_cpu_devices(int count, const DeviceSettings& settings) {
  return std::make_unique<CpuDevices>(count, settings);
}

}  // namespace harness
