// SPDX-License-Identifier: Apache-2.0
// The layers by oneDNN (https://github.com/oneapi-src/oneDNN). Activations keep a layout that suits the primitives from
// one layer to the next; images, weights and gradients are plain and are reordered where a primitive wants them
// otherwise. A tensor's layout is chosen once, for a whole batch; a smaller batch takes the first images of it, by
// primitives of its own that are made when such a batch first comes.
#include <omp.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/backend.hpp"
#include "models/backends/cross_entropy.hpp"
#include "models/backends/onednn_compat.hpp"

namespace models {

namespace {

using dnnl::memory;
using onednn::describe;
using onednn::describe_backward;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

memory::desc plain_desc(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

memory::desc any_desc(const memory::dims& dims) { return plain_desc(dims, Tag::any); }

// What the layers of a replica share: its processor, its queue of work, its memory.
struct Library {
  explicit Library(const Workplace& place) : workplace(place) {}

  Workplace workplace;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
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
  memory::desc liked(int images) const {
    const bool fills_up = rank_ == Rank::four && shape.channels % 16 != 0;
    return fills_up ? plain_desc(dims(images), Tag::nhwc) : any_desc(dims(images));
  }

  // Settles the layout of a whole batch, and takes memory for values and gradients.
  void settle(const memory::desc& layout) {
    layout_ = layout;
    for (void** data : {&value_, &gradient_}) {
      buffers_.push_back(library_.workplace.device.allocate(layout.get_size()));
      *data = buffers_.back().data();
    }
  }
  // For the images that are loaded: memory that is there already, and no gradient.
  void settle(const memory::desc& layout, void* value) {
    layout_ = layout;
    value_ = value;
  }

  bool settled() const { return layout_.has_value(); }
  Rank rank() const { return rank_; }
  bool wants_gradient() const { return gradient_ != nullptr; }
  // Of flat activations, which are plain rows.
  float* value() const { return static_cast<float*>(value_); }
  float* gradient() const { return static_cast<float*>(gradient_); }

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
    add(dnnl::reorder(from, copy), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, copy}});
    return copy;
  }
  // Adds a primitive that writes `into` as its argument `name`, in the layout that it likes.
  void add_writing(const dnnl::primitive& primitive, Arguments arguments, int name, const memory& into,
                   const memory::desc& liked) {
    if (into.get_desc() == liked) {
      arguments.emplace(name, into);
      return add(primitive, std::move(arguments));
    }
    memory copy(liked, library_->engine);
    arguments.emplace(name, copy);
    add(primitive, std::move(arguments));
    add(dnnl::reorder(copy, into), {{DNNL_ARG_FROM, copy}, {DNNL_ARG_TO, into}});
  }
  void add(const dnnl::primitive& primitive, Arguments arguments) {
    steps_.push_back({primitive, std::move(arguments)});
  }

  void execute() {
    for (const Step& step : steps_) step.primitive.execute(library_->stream, step.arguments);
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

  Library& library_;
  const ActivationPointer in_, out_;

 private:
  Sequences& sequences(int images) {
    auto found = sequences_.find(images);
    if (found == sequences_.end()) found = sequences_.emplace(images, make(images)).first;
    return found->second;
  }

  std::map<int, Sequences> sequences_;
};

// What convolutions and linear layers have in common: all but how their primitives are described.
template <typename Forward, typename BackwardData, typename BackwardWeights>
class Weighted : public PrimitiveLayer {
 public:
  Weighted(Library& library, const ActivationPointer& in, const ActivationPointer& out, const memory::dims& weight,
           Tag plain, const Weights& weights)
      : PrimitiveLayer(library, in, out),
        any_weight_(any_desc(weight)),
        bias_desc_(plain_desc({out->shape.channels}, Tag::a)),
        weight_(plain_desc(weight, plain), library.engine, weights.weight),
        bias_(bias_desc_, library.engine, weights.bias),
        weight_gradient_(plain_desc(weight, plain), library.engine, weights.weight_gradient),
        bias_gradient_(bias_desc_, library.engine, weights.bias_gradient) {}

 protected:
  using ForwardHow = typename Forward::primitive_desc;
  virtual ForwardHow describe_forward(const memory::desc& in, const memory::desc& out) const = 0;
  virtual typename BackwardData::primitive_desc describe_data(const ForwardHow& forward, const memory::desc& in,
                                                              const memory::desc& out) const = 0;
  virtual typename BackwardWeights::primitive_desc describe_weights(const ForwardHow& forward, const memory::desc& in,
                                                                    const memory::desc& out) const = 0;

  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    const auto liked_in = in_->liked(images);
    const auto how = describe_forward(liked_in, out_->desc(images));
    if (!out_->settled()) out_->settle(how.dst_desc());
    const memory in = in_->values(images);
    result.forward.add_writing(Forward(how),
                               {{DNNL_ARG_SRC, result.forward.read(in, how.src_desc())},
                                {DNNL_ARG_WEIGHTS, result.forward.read(weight_, how.weights_desc())},
                                {DNNL_ARG_BIAS, bias_}},
                               DNNL_ARG_DST, out_->values(images), how.dst_desc());

    const memory pull = out_->gradients(images);
    const auto weights_how = describe_weights(how, liked_in, out_->liked(images));
    result.backward.add_writing(BackwardWeights(weights_how),
                                {{DNNL_ARG_SRC, result.backward.read(in, weights_how.src_desc())},
                                 {DNNL_ARG_DIFF_DST, result.backward.read(pull, weights_how.diff_dst_desc())},
                                 {DNNL_ARG_DIFF_BIAS, bias_gradient_}},
                                DNNL_ARG_DIFF_WEIGHTS, weight_gradient_, weights_how.diff_weights_desc());
    if (!in_->wants_gradient()) return result;
    const auto data_how = describe_data(how, liked_in, out_->liked(images));
    result.backward.add_writing(BackwardData(data_how),
                                {{DNNL_ARG_WEIGHTS, result.backward.read(weight_, data_how.weights_desc())},
                                 {DNNL_ARG_DIFF_DST, result.backward.read(pull, data_how.diff_dst_desc())}},
                                DNNL_ARG_DIFF_SRC, in_->gradients(images), data_how.diff_src_desc());
    return result;
  }

  const memory::desc any_weight_, bias_desc_;
  const memory weight_, bias_, weight_gradient_, bias_gradient_;
};

class Convolution
    : public Weighted<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights> {
 public:
  Convolution(Library& library, const ActivationPointer& in, const ActivationPointer& out, const Weights& weights)
      : Weighted(library, in, out,
                 {out->shape.channels, in->shape.channels, in->shape.height - out->shape.height + 1,
                  in->shape.width - out->shape.width + 1},
                 Tag::oihw, weights) {}

 private:
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
  static constexpr auto direct = dnnl::algorithm::convolution_direct;

  ForwardHow describe_forward(const memory::desc& in, const memory::desc& out) const override {
    return describe<dnnl::convolution_forward>(library_.engine, dnnl::prop_kind::forward_training, direct, in,
                                               any_weight_, bias_desc_, out, strides_, padding_, padding_);
  }
  BackwardData::primitive_desc describe_data(const ForwardHow& forward, const memory::desc& in,
                                             const memory::desc& out) const override {
    return describe_backward<BackwardData>(library_.engine, forward, direct, in, any_weight_, out, strides_, padding_,
                                           padding_);
  }
  BackwardWeights::primitive_desc describe_weights(const ForwardHow& forward, const memory::desc& in,
                                                   const memory::desc& out) const override {
    return describe_backward<BackwardWeights>(library_.engine, forward, direct, in, any_weight_, bias_desc_, out,
                                              strides_, padding_, padding_);
  }

  const memory::dims strides_ = {1, 1}, padding_ = {0, 0};
};

class Linear : public Weighted<dnnl::inner_product_forward, dnnl::inner_product_backward_data,
                               dnnl::inner_product_backward_weights> {
 public:
  Linear(Library& library, const ActivationPointer& in, const ActivationPointer& out, const Weights& weights)
      : Weighted(library, in, out, weight_dims(*in, *out), in->rank() == Activation::Rank::flat ? Tag::ab : Tag::abcd,
                 weights) {}

 private:
  using BackwardData = dnnl::inner_product_backward_data;
  using BackwardWeights = dnnl::inner_product_backward_weights;

  // As the input's, with features for images.
  static memory::dims weight_dims(const Activation& in, const Activation& out) { return in.dims(out.shape.channels); }
  ForwardHow describe_forward(const memory::desc& in, const memory::desc& out) const override {
    return describe<dnnl::inner_product_forward>(library_.engine, dnnl::prop_kind::forward_training, in, any_weight_,
                                                 bias_desc_, out);
  }
  BackwardData::primitive_desc describe_data(const ForwardHow& forward, const memory::desc& in,
                                             const memory::desc& out) const override {
    return describe_backward<BackwardData>(library_.engine, forward, in, any_weight_, out);
  }
  BackwardWeights::primitive_desc describe_weights(const ForwardHow& forward, const memory::desc& in,
                                                   const memory::desc& out) const override {
    return describe_backward<BackwardWeights>(library_.engine, forward, in, any_weight_, bias_desc_, out);
  }
};

// In place. Its own output serves as the input of the derivative: both are positive at the same elements.
class Relu : public PrimitiveLayer {
 public:
  Relu(Library& library, const ActivationPointer& in) : PrimitiveLayer(library, in, in) {}

 private:
  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    const memory values = in_->values(images), gradients = in_->gradients(images);
    const auto how = onednn::describe_relu(library_.engine, in_->desc(images));
    const auto back = onednn::describe_relu_backward(library_.engine, how, in_->desc(images));
    result.forward.add(dnnl::eltwise_forward(how), {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
    result.backward.add(dnnl::eltwise_backward(back),
                        {{DNNL_ARG_SRC, values}, {DNNL_ARG_DIFF_DST, gradients}, {DNNL_ARG_DIFF_SRC, gradients}});
    return result;
  }
};

class AveragePool : public PrimitiveLayer {
 public:
  using PrimitiveLayer::PrimitiveLayer;

 private:
  static constexpr int side = 2;

  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    const auto how = onednn::describe_average_pool(library_.engine, in_->desc(images), out_->desc(images), side);
    if (!out_->settled()) out_->settle(how.dst_desc());
    const auto back =
        onednn::describe_average_pool_backward(library_.engine, how, in_->desc(images), out_->desc(images), side);
    result.forward.add(dnnl::pooling_forward(how),
                       {{DNNL_ARG_SRC, in_->values(images)}, {DNNL_ARG_DST, out_->values(images)}});
    result.backward.add(dnnl::pooling_backward(back),
                        {{DNNL_ARG_DIFF_DST, out_->gradients(images)}, {DNNL_ARG_DIFF_SRC, in_->gradients(images)}});
    return result;
  }
};

class OneDnn : public Backend {
 public:
  explicit OneDnn(const Workplace& workplace) : library_(workplace) { omp_set_num_threads(workplace.threads); }

  TensorPointer input(const Shape& shape, float* images) override {
    auto tensor = std::make_shared<Activation>(library_, shape);
    tensor->settle(plain_desc(tensor->dims(library_.workplace.capacity), Tag::nchw), images);
    return tensor;
  }
  LayerPointer convolution(const TensorPointer& in, int channels, int kernel, const Weights& weights) override {
    const Shape shape{channels, in->shape.height - kernel + 1, in->shape.width - kernel + 1};
    return prepared(std::make_unique<Convolution>(library_, activation(in),
                                                  std::make_shared<Activation>(library_, shape), weights));
  }
  LayerPointer relu(const TensorPointer& in) override {
    return prepared(std::make_unique<Relu>(library_, activation(in)));
  }
  LayerPointer average_pool(const TensorPointer& in) override {
    const Shape shape{in->shape.channels, in->shape.height / 2, in->shape.width / 2};
    return prepared(
        std::make_unique<AveragePool>(library_, activation(in), std::make_shared<Activation>(library_, shape)));
  }
  LayerPointer linear(const TensorPointer& in, int features, const Weights& weights) override {
    auto out = std::make_shared<Activation>(library_, Shape{features, 1, 1}, Activation::Rank::flat);
    out->settle(plain_desc(out->dims(library_.workplace.capacity), Tag::ab));
    return prepared(std::make_unique<Linear>(library_, activation(in), out, weights));
  }
  LayerPointer cross_entropy(const TensorPointer& in, const std::uint8_t* labels, Outcome& outcome) override {
    const auto logits = activation(in);
    if (logits->rank() != Activation::Rank::flat) throw harness::Error("only a linear layer can put out the logits");
    return make_cross_entropy(in, logits->value(), logits->gradient(), labels, outcome);
  }

 private:
  static ActivationPointer activation(const TensorPointer& tensor) {
    return std::static_pointer_cast<Activation>(tensor);
  }
  static LayerPointer prepared(std::unique_ptr<PrimitiveLayer> layer) {
    layer->prepare();
    return layer;
  }

  Library library_;
};

}  // namespace

std::unique_ptr<Backend> make_onednn_backend(const Workplace& workplace) { return std::make_unique<OneDnn>(workplace); }

}  // namespace models
