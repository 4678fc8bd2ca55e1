// SPDX-License-Identifier: Apache-2.0
#include "allreduce/engines/gloo.hpp"

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <climits>
#include <functional>

#include "allreduce/engines/rank_program.hpp"

namespace allreduce {

namespace {

// Each process gives its host's name, and then its address, and asks for those of the others: under keys that end with
// the rank.
class WorldStore : public gloo::rendezvous::Store {
 public:
  explicit WorldStore(harness::World& world) : world_(world) {}
  void set(const std::string&, const std::vector<char>& data) override {
    all_ = world_.gather(std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string& data = all_.at(std::stoul(key.substr(key.find_first_of("0123456789"))));
    return {data.begin(), data.end()};
  }
  void wait(const std::vector<std::string>&) override {}  // they came with the own one

 private:
  harness::World& world_;
  std::vector<std::string> all_;
};

class GlooProgram : public RankProgram {
 public:
  GlooProgram(const Problem& problem, const std::string& algorithm, harness::World& world)
      : RankProgram(problem, world) {
    with_words_of_gloo([&] {
      gloo::transport::tcp::attr own(world.address().c_str());
      auto context = std::make_shared<gloo::rendezvous::Context>(world.rank(), world.size());
      WorldStore store(world);
      auto device = gloo::transport::tcp::CreateDevice(own);
      context->connectFullMesh(store, device);
      context_ = context;
      switch (problem.dtype) {
        case harness::Dtype::f32: return prepare<float>(algorithm);
        case harness::Dtype::f64: return prepare<double>(algorithm);
        default: return prepare<std::int32_t>(algorithm);
      }
    });
  }
  ~GlooProgram() override { stop(); }

 protected:
  void run(std::byte*, const std::byte*) override { with_words_of_gloo(all_reduce_); }

 private:
  static void with_words_of_gloo(const std::function<void()>& work) {
    try {
      work();
    } catch (const harness::Error&) {
      throw;
    } catch (const std::exception& error) {
      throw harness::Error(std::string("Gloo: ") + error.what());
    }
  }

  template <typename T>
  void prepare(const std::string& algorithm) {
    auto* data = reinterpret_cast<T*>(problem().buffers[0].data[0]);
    const std::vector<T*> pointers{data};
    const auto count = static_cast<int>(problem().count);
    if (algorithm == "ring") {
      all_reduce_ = [this, data] {
        gloo::AllreduceOptions options(context_);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setOutput(data, problem().count);
        options.setReduceFunction(function<T>());
        gloo::allreduce(options);
      };
      return;
    }
    if (algorithm == "ring_chunked") {
      old_style_ = std::make_unique<gloo::AllreduceRingChunked<T>>(context_, pointers, count, old_function<T>());
    } else {
      old_style_ = std::make_unique<gloo::AllreduceHalvingDoubling<T>>(context_, pointers, count, old_function<T>());
    }
    all_reduce_ = [this] { old_style_->run(); };
  }

  template <typename T>
  gloo::AllreduceOptions::Func function() const {
    void (*reduce)(void*, const void*, const void*, std::size_t) = &gloo::sum<T>;
    if (problem().op == harness::Op::prod) reduce = &gloo::product<T>;
    if (problem().op == harness::Op::min) reduce = &gloo::min<T>;
    if (problem().op == harness::Op::max) reduce = &gloo::max<T>;
    return reduce;
  }
  template <typename T>
  const gloo::ReductionFunction<T>* old_function() const {
    if (problem().op == harness::Op::prod) return gloo::ReductionFunction<T>::product;
    if (problem().op == harness::Op::min) return gloo::ReductionFunction<T>::min;
    if (problem().op == harness::Op::max) return gloo::ReductionFunction<T>::max;
    return gloo::ReductionFunction<T>::sum;
  }

  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::Algorithm> old_style_;
  std::function<void()> all_reduce_;
};

}  // namespace

std::optional<std::string> gloo_refuses(const Problem& problem, Collective collective) {
  if (collective != Collective::allreduce) return "of Gloo only its all-reduces are here";
  if (problem.dtype == harness::Dtype::f16 || problem.dtype == harness::Dtype::bf16) {
    return "Gloo is given no type for " + std::string(harness::name(problem.dtype));
  }
  if (problem.op == harness::Op::avg) return "Gloo has no average";
  if (!problem.buffers.at(0).input.empty()) return "of Gloo's algorithms most work in place; take that placement";
  if (problem.count == 0) return "Gloo takes no empty vectors";
  if (problem.count > INT_MAX) {
    return "Gloo counts with an int, and " + std::to_string(problem.count) + " elements are too many";
  }
  return std::nullopt;
}

std::unique_ptr<Program> prepare_gloo(const Problem& problem, const std::string& algorithm, harness::World& world) {
  if (const auto why = gloo_refuses(problem, Collective::allreduce)) throw harness::Error(*why);
  return std::make_unique<GlooProgram>(problem, algorithm, world);
}

}  // namespace allreduce
