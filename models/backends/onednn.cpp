// SPDX-License-Identifier: Apache-2.0
// The layers by oneDNN (https://github.com/oneapi-src/oneDNN). Activations keep a layout that suits the primitives from
// one layer to the next; images, weights and gradients are plain and are reordered where a primitive wants them
// otherwise.
#include <omp.h>

#include <algorithm>
#include <utility>

#include "harness/options.hpp"
#include "models/backend.hpp"
#include "models/backends/cross_entropy.hpp"
#include "models/backends/onednn_batch_norm.hpp"
#include "models/backends/onednn_compat.hpp"
#include "models/backends/onednn_layer.hpp"

namespace models::onednn {

namespace {

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
    // A single channel is first and last at once; beside channels that are last, the library has fast code (25 times as
    // fast, oneDNN 2.6 on AVX-512) only where it is told that this one is last too.
    const bool as_out = in_->shape.channels == 1 && in_->rank() == Activation::Rank::four && out_->fills_up();
    const auto liked_in = as_out ? in_->channels_last(images) : in_->liked(images);
    const auto how = describe_forward(liked_in, out_->desc(images));
    if (!out_->settled()) out_->settle(how.dst_desc());
    const memory in = in_->values(images);
    result.forward.add_writing(how,
                               {{DNNL_ARG_SRC, result.forward.read(in, how.src_desc())},
                                {DNNL_ARG_WEIGHTS, result.forward.read(weight_, how.weights_desc())},
                                {DNNL_ARG_BIAS, bias_}},
                               DNNL_ARG_DST, out_->values(images), how.dst_desc());

    const memory pull = out_->gradients(images);
    const auto weights_how = describe_weights(how, liked_in, out_->liked(images));
    result.backward.add_writing(weights_how,
                                {{DNNL_ARG_SRC, result.backward.read(in, weights_how.src_desc())},
                                 {DNNL_ARG_DIFF_DST, result.backward.read(pull, weights_how.diff_dst_desc())},
                                 {DNNL_ARG_DIFF_BIAS, bias_gradient_}},
                                DNNL_ARG_DIFF_WEIGHTS, weight_gradient_, weights_how.diff_weights_desc());
    if (!in_->wants_gradient()) return result;
    const auto data_how = describe_data(how, liked_in, out_->liked(images));
    result.backward.add_writing(data_how,
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
  Convolution(Library& library, const ActivationPointer& in, const ActivationPointer& out, const Window& window,
              const Weights& weights)
      : Weighted(library, in, out, {out->shape.channels, in->shape.channels, window.kernel, window.kernel}, Tag::oihw,
                 weights),
        strides_{window.stride, window.stride},
        before_{window.padding, window.padding},
        after_{left_over(in->shape.height, window), left_over(in->shape.width, window)} {}

 private:
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
  // Winograd's algorithm where it is asked for and the library has it for this shape.
  template <typename Describe>
  auto preferred(const Describe& describe_with) const {
    if (library_.workplace.math == Math::winograd) {
      try {
        return describe_with(dnnl::algorithm::convolution_winograd);
      } catch (const dnnl::error& error) {
        if (error.status != dnnl_unimplemented) throw;
      }
    }
    return describe_with(dnnl::algorithm::convolution_direct);
  }

  ForwardHow describe_forward(const memory::desc& in, const memory::desc& out) const override {
    return preferred([&](dnnl::algorithm algorithm) {
      return describe<dnnl::convolution_forward>(library_.engine, dnnl::prop_kind::forward_training, algorithm, in,
                                                 any_weight_, bias_desc_, out, strides_, before_, after_);
    });
  }
  BackwardData::primitive_desc describe_data(const ForwardHow& forward, const memory::desc& in,
                                             const memory::desc& out) const override {
    return preferred([&](dnnl::algorithm algorithm) {
      return describe_backward<BackwardData>(library_.engine, forward, algorithm, in, any_weight_, out, strides_,
                                             before_, after_);
    });
  }
  BackwardWeights::primitive_desc describe_weights(const ForwardHow& forward, const memory::desc& in,
                                                   const memory::desc& out) const override {
    return preferred([&](dnnl::algorithm algorithm) {
      return describe_backward<BackwardWeights>(library_.engine, forward, algorithm, in, any_weight_, bias_desc_, out,
                                                strides_, before_, after_);
    });
  }
  // The library wants the padding behind to end with the last window: less than there is, where the stride leaves some
  // of it over.
  static int left_over(int side, const Window& window) {
    return (window.outputs(side) - 1) * window.stride + window.kernel - side - window.padding;
  }

  const memory::dims strides_, before_, after_;
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
    const auto how = describe_relu(library_.engine, in_->desc(images));
    const auto back = describe_relu_backward(library_.engine, how, in_->desc(images));
    result.forward.add(how, {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
    result.backward.add(back, {{DNNL_ARG_SRC, values}, {DNNL_ARG_DIFF_DST, gradients}, {DNNL_ARG_DIFF_SRC, gradients}});
    return result;
  }
};

class Branch : public PrimitiveLayer {
 public:
  using PrimitiveLayer::PrimitiveLayer;

 private:
  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    if (!out_->settled()) out_->settle_as_branch_of(*in_);
    const memory sum = in_->gradients(images);
    result.backward.add(describe_sum(library_.engine, sum.get_desc(), false),
                        {{DNNL_ARG_SRC_0, sum}, {DNNL_ARG_SRC_1, out_->gradients(images)}, {DNNL_ARG_DST, sum}});
    return result;
  }
};

// In place of `main`, so that the other way around it is the input.
class ResidualSum : public PrimitiveLayer {
 public:
  ResidualSum(Library& library, const ActivationPointer& main, const ActivationPointer& shortcut)
      : PrimitiveLayer(library, shortcut, main) {}

 private:
  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    const memory sum = out_->values(images), pull = out_->gradients(images), shortcut = in_->gradients(images);
    const auto desc = sum.get_desc();
    result.forward.add(
        describe_sum(library_.engine, desc, true),
        {{DNNL_ARG_SRC_0, sum}, {DNNL_ARG_SRC_1, result.forward.read(in_->values(images), desc)}, {DNNL_ARG_DST, sum}});
    const auto how = describe_relu(library_.engine, desc);
    result.backward.add(describe_relu_backward(library_.engine, how, desc),
                        {{DNNL_ARG_SRC, sum}, {DNNL_ARG_DIFF_DST, pull}, {DNNL_ARG_DIFF_SRC, pull}});
    result.backward.reorder(pull, shortcut);
    return result;
  }
};

// By way of all channels in plain order, where any of them are a part of the memory.
class Outlet : public PrimitiveLayer {
 public:
  Outlet(Library& library, const ActivationPointer& in, const ActivationPointer& out, Slice channels)
      : PrimitiveLayer(library, in, out), first_(static_cast<int>(channels.offset)) {}

 private:
  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    const memory::desc plain = in_->plain(images);
    const memory values = out_->values(images), gradients = out_->gradients(images);
    result.forward.reorder(channels_of(result.forward.read(in_->values(images), plain), images), values);
    if (!in_->wants_gradient()) return result;
    const memory all(plain, library_.engine);
    std::fill_n(static_cast<std::byte*>(all.get_data_handle()), plain.get_size(), std::byte{0});
    result.backward.reorder(gradients, channels_of(all, images));
    result.backward.reorder(all, in_->gradients(images));
    return result;
  }
  memory channels_of(const memory& all, int images) const {
    const memory::dims dims = out_->dims(images);
    memory::dims first(dims.size(), 0);
    first[1] = first_;
    return {all.get_desc().submemory_desc(dims, first), library_.engine, all.get_data_handle()};
  }

  const int first_;
};

class AveragePool : public PrimitiveLayer {
 public:
  AveragePool(Library& library, const ActivationPointer& in, const ActivationPointer& out, int side)
      : PrimitiveLayer(library, in, out), side_(side) {}

 private:
  Sequences make(int images) override {
    Sequences result{Sequence(library_), Sequence(library_)};
    const auto how = describe_average_pool(library_.engine, in_->desc(images), out_->desc(images), side_);
    if (!out_->settled()) out_->settle(how.dst_desc());
    const auto back =
        describe_average_pool_backward(library_.engine, how, in_->desc(images), out_->desc(images), side_);
    result.forward.add(how, {{DNNL_ARG_SRC, in_->values(images)}, {DNNL_ARG_DST, out_->values(images)}});
    result.backward.add(back,
                        {{DNNL_ARG_DIFF_DST, out_->gradients(images)}, {DNNL_ARG_DIFF_SRC, in_->gradients(images)}});
    return result;
  }

  const int side_;
};

// Whether the library has Winograd's algorithm for this processor at all, as for the layers of ResNet-18.
bool has_winograd(const dnnl::engine& engine) {
  const memory::dims side = {1, 1};
  const auto data = any_desc({1, 64, 28, 28});
  try {
    describe<dnnl::convolution_forward>(engine, dnnl::prop_kind::forward_training,
                                        dnnl::algorithm::convolution_winograd, data, any_desc({64, 64, 3, 3}),
                                        plain_desc({64}, Tag::a), data, side, side, side);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

class OneDnn : public Backend {
 public:
  explicit OneDnn(const Workplace& workplace) : library_(workplace) {
    omp_set_num_threads(workplace.threads);
    require_math(workplace.math, {Math::f32, Math::winograd}, "oneDNN");
    if (workplace.math != Math::winograd || has_winograd(library_.engine)) return;
    throw harness::bad_value("math", "winograd", "this oneDNN has for this processor: f32");
  }

  TensorPointer input(const Shape& shape, float* values, float* gradients) override {
    auto tensor = make(shape);
    tensor->settle(tensor->plain(library_.workplace.capacity), values, gradients);
    return tensor;
  }
  LayerPointer convolution(const TensorPointer& in, int channels, const Window& window,
                           const Weights& weights) override {
    const Shape shape{channels, window.outputs(in->shape.height), window.outputs(in->shape.width)};
    return prepared(std::make_unique<Convolution>(library_, activation(in), make(shape), window, weights));
  }
  LayerPointer batch_norm(const TensorPointer& in, bool relu, const Weights& weights) override {
    return prepared(std::make_unique<BatchNorm>(library_, activation(in), make(in->shape), relu, weights));
  }
  LayerPointer relu(const TensorPointer& in) override {
    return prepared(std::make_unique<Relu>(library_, activation(in)));
  }
  LayerPointer branch(const TensorPointer& in) override {
    return prepared(std::make_unique<Branch>(library_, activation(in), make(in->shape)));
  }
  LayerPointer residual_sum(const TensorPointer& main, const TensorPointer& shortcut) override {
    return prepared(std::make_unique<ResidualSum>(library_, activation(main), activation(shortcut)));
  }
  LayerPointer outlet(const TensorPointer& in, Slice channels) override {
    const Shape shape{static_cast<int>(channels.count), in->shape.height, in->shape.width};
    auto out = std::make_shared<Activation>(library_, shape, activation(in)->rank());
    out->settle(out->plain(library_.workplace.capacity));
    return prepared(std::make_unique<Outlet>(library_, activation(in), out, channels));
  }
  LayerPointer average_pool(const TensorPointer& in, int side) override {
    const Shape shape{in->shape.channels, in->shape.height / side, in->shape.width / side};
    return prepared(std::make_unique<AveragePool>(library_, activation(in), make(shape), side));
  }
  LayerPointer linear(const TensorPointer& in, int features, const Weights& weights) override {
    auto out = std::make_shared<Activation>(library_, Shape{features, 1, 1}, Activation::Rank::flat);
    out->settle(out->plain(library_.workplace.capacity));
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
  ActivationPointer make(const Shape& shape) { return std::make_shared<Activation>(library_, shape); }
  static LayerPointer prepared(std::unique_ptr<PrimitiveLayer> layer) {
    layer->prepare();
    return layer;
  }

  Library library_;
};

}  // namespace

}  // namespace models::onednn

namespace models {

std::unique_ptr<Backend> make_onednn_backend(const Workplace& workplace) {
  return std::make_unique<onednn::OneDnn>(workplace);
}

}  // namespace models
