// SPDX-License-Identifier: Apache-2.0
// What layers by oneDNN are made of: activations in a layout that the library likes, and primitives that are executed
// one after the other. A tensor's layout is chosen once, for a whole batch; a smaller batch takes the first images of
// it, by primitives of its own that are made when such a batch first comes.
#pragma once

#include <dnnl.hpp>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/backend.hpp"
#include "models/backends/onednn_compat.hpp"

namespace models::onednn {

using dnnl::memory;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

inline memory::desc plain_desc(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

inline memory::desc any_desc(const memory::dims& dims) { return plain_desc(dims, Tag::any); }

// What the layers of a replica share: its processor, its queue of work, its memory.
struct Library {
  explicit Library(const Workplace& place) : workplace(place) {}

  Workplace workplace;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  // What the one primitive that runs at a time works in: as much as the neediest takes.
  void reserve_scratchpad(std::size_t bytes) {
    if (bytes > scratchpad_.bytes()) scratchpad_ = workplace.device.allocate(bytes);
  }
  void* scratchpad() const { return scratchpad_.data(); }

 private:
  harness::Buffer scratchpad_;
};

// Of a convolution's shape [images][channels][height][width], or flat as [images][features].
struct Activation : Tensor {
  enum class Rank { four, flat };
  Activation(Library& library, const Shape& of_one_image, Rank rank = Rank::four)
      : Tensor(of_one_image), library_(library), rank_(rank) {}

  memory::dims dims(int images) const {
    if (rank_ == Rank::flat) return {images, shape.channels};
    return {images, shape.channels, shape.height, shape.width};
  }
  // What the library likes best, except that it would fill up blocks of 16 channels with zeros: LeNet with its 20 and
  // 50 takes 70 ms a step so and 50 ms with the channels last (batch 256, one thread, oneDNN 2.6 on AVX-512).
  memory::desc liked(int images) const { return fills_up() ? channels_last(images) : any_desc(dims(images)); }
  bool fills_up() const { return rank_ == Rank::four && shape.channels > 1 && shape.channels % 16 != 0; }
  memory::desc channels_last(int images) const { return plain_desc(dims(images), Tag::nhwc); }
  memory::desc plain(int images) const { return plain_desc(dims(images), rank_ == Rank::flat ? Tag::ab : Tag::nchw); }

  // Settles the layout of a whole batch, and takes memory for values and gradients.
  void settle(const memory::desc& layout) {
    layout_ = layout;
    for (void** data : {&value_, &gradient_}) {
      buffers_.push_back(library_.workplace.device.allocate(layout.get_size()));
      *data = buffers_.back().data();
    }
  }
  // For what comes from outside: memory that is there already, perhaps none for gradients.
  void settle(const memory::desc& layout, void* value, void* gradient) {
    layout_ = layout;
    value_ = value;
    gradient_ = gradient;
  }
  // For a second reader: the values of another, and a gradient of its own.
  void settle_as_branch_of(const Activation& other) {
    settle(*other.layout_, other.value_, nullptr);
    buffers_.push_back(library_.workplace.device.allocate(layout_->get_size()));
    gradient_ = buffers_.back().data();
  }

  int capacity() const { return library_.workplace.capacity; }
  bool settled() const { return layout_.has_value(); }
  Rank rank() const { return rank_; }
  bool wants_gradient() const { return gradient_ != nullptr; }
  // In the layout of desc(capacity()); flat activations are plain rows.
  float* value() const { return static_cast<float*>(value_); }
  float* gradient() const { return static_cast<float*>(gradient_); }

  Extent extent() const override { return {value(), gradient(), layout_ ? layout_->get_size() : 0}; }

  // The layout of the first images; as long as it is not settled, the liked one.
  memory::desc desc(int images) const {
    if (!layout_) return liked(images);
    const auto all = dims(images);
    return images == library_.workplace.capacity ? *layout_ : layout_->submemory_desc(all, memory::dims(all.size(), 0));
  }
  memory values(int images) const { return {desc(images), library_.engine, value_}; }
  memory gradients(int images) const { return {desc(images), library_.engine, gradient_}; }

 private:
  Library& library_;
  Rank rank_;
  std::optional<memory::desc> layout_;
  void* value_ = nullptr;
  void* gradient_ = nullptr;
  std::vector<harness::Buffer> buffers_;
};
using ActivationPointer = std::shared_ptr<Activation>;

// Primitives to execute one after the other, with reorders around them where a layout is not the wanted one.
class Sequence {
 public:
  explicit Sequence(Library& library) : library_(&library) {}

  // `from` in the wanted layout: itself, or a copy that is made at this point of the sequence.
  memory read(const memory& from, const memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    memory copy(wanted, library_->engine);
    reorder(from, copy);
    return copy;
  }
  // Adds a primitive that writes `into` as its argument `name`, in the layout that it likes.
  void add_writing(const dnnl::primitive_desc_base& how, Arguments arguments, int name, const memory& into,
                   const memory::desc& liked) {
    if (into.get_desc() == liked) {
      arguments.emplace(name, into);
      return add(how, std::move(arguments));
    }
    memory copy(liked, library_->engine);
    arguments.emplace(name, copy);
    add(how, std::move(arguments));
    reorder(copy, into);
  }
  void reorder(const memory& from, const memory& to) {
    add(dnnl::reorder::primitive_desc(from, to, attributes()), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  void add(const dnnl::primitive_desc_base& how, Arguments arguments) {
    if (const memory::desc scratchpad = how.scratchpad_desc(); scratchpad.get_size() > 0) {
      library_->reserve_scratchpad(scratchpad.get_size());
      arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad, library_->engine, DNNL_MEMORY_NONE));
    }
    steps_.push_back({dnnl::primitive(how.get()), std::move(arguments)});
  }

  void execute() {
    for (Step& step : steps_) {
      const auto scratchpad = step.arguments.find(DNNL_ARG_SCRATCHPAD);
      if (scratchpad != step.arguments.end()) scratchpad->second.set_data_handle(library_->scratchpad());
      step.primitive.execute(library_->stream, step.arguments);
    }
    library_->stream.wait();
  }

 private:
  struct Step {
    dnnl::primitive primitive;
    Arguments arguments;
  };
  Library* library_;
  std::vector<Step> steps_;
};

// A layer as two sequences for each number of images that it has run with.
class PrimitiveLayer : public Layer {
 public:
  PrimitiveLayer(Library& library, const ActivationPointer& in, const ActivationPointer& out)
      : Layer(out), library_(library), in_(in), out_(out) {}

  void forward(int images) override { sequences(images).forward.execute(); }
  void backward(int images) override { sequences(images).backward.execute(); }

  // The whole batch comes first, since it settles the layout of the output.
  void prepare() { sequences(library_.workplace.capacity); }

 protected:
  struct Sequences {
    Sequence forward, backward;
  };
  virtual Sequences make(int images) = 0;

  Sequences& sequences(int images) {
    auto found = sequences_.find(images);
    if (found == sequences_.end()) found = sequences_.emplace(images, make(images)).first;
    return found->second;
  }

  Library& library_;
  const ActivationPointer in_, out_;

 private:
  std::map<int, Sequences> sequences_;
};

}  // namespace models::onednn
