// SPDX-License-Identifier: Apache-2.0
#include "models/backends/onednn_batch_norm.hpp"

#include <algorithm>
#include <array>

#include "models/backends/onednn_compat.hpp"

namespace models::onednn {

namespace {

constexpr double replaced = 0.1;
constexpr float epsilon = 1e-5F;
constexpr int most_lanes = 16;  // of a vector register

struct Sums {
  std::array<double, most_lanes> value = {}, square = {};
};

// Adds `pixels` vectors of `lanes` values, which lie `stride` apart.
void add(const float* values, int pixels, int stride, int lanes, Sums& sums) {
  for (int pixel = 0; pixel < pixels; ++pixel) {
    const float* vector = values + std::size_t(pixel) * stride;
    for (int lane = 0; lane < lanes; ++lane) {
      const double value = vector[lane];
      sums.value[lane] += value;
      sums.square[lane] += value * value;
    }
  }
}

// All of the library's layouts for images are [image][block of channels][pixel][channel of the block].
int lanes_of(const Activation& in) {
  const int images = in.capacity(), channels = in.shape.channels;
  const auto has = [&](Tag tag) { return in.desc(images) == plain_desc(in.dims(images), tag); };
  if (has(Tag::nhwc)) return channels;
  if (has(Tag::nChw16c)) return 16;
  if (has(Tag::nChw8c)) return 8;
  if (has(Tag::nChw4c)) return 4;
  if (has(Tag::nchw)) return 1;
  throw harness::Error("oneDNN has chosen a layout for batch norm that is not known here");
}

}  // namespace

BatchNorm::BatchNorm(Library& library, const ActivationPointer& in, const ActivationPointer& out, bool relu,
                     const Weights& weights)
    : PrimitiveLayer(library, in, out),
      relu_(relu),
      weights_(weights),
      lanes_(lanes_of(*in)),
      batch_mean_(in->shape.channels),
      batch_variance_(in->shape.channels),
      scale_(channels(weights.weight)),
      shift_(channels(weights.bias)),
      scale_gradient_(channels(weights.weight_gradient)),
      shift_gradient_(channels(weights.bias_gradient)),
      running_mean_(channels(weights.running_mean)),
      running_variance_(channels(weights.running_variance)),
      mean_(channels(batch_mean_.data())),
      variance_(channels(batch_variance_.data())) {}

memory BatchNorm::channels(float* data) const {
  return {plain_desc({in_->shape.channels}, Tag::a), library_.engine, data};
}

// One thread has all the images of a channel: the sums do not depend on the number of threads.
void BatchNorm::compute_statistics(int images) {
  const int channels = in_->shape.channels, pixels = in_->shape.pixels();
  const int together = std::min(lanes_, most_lanes);
  const double count = double(images) * pixels;
#pragma omp parallel for
  for (int first = 0; first < channels; first += together) {
    const int lanes = std::min(together, channels - first);
    Sums sums;
    for (int image = 0; image < images; ++image) {
      const std::size_t block = std::size_t(image) * channels + first / lanes_ * lanes_;
      const float* values = in_->value() + block * pixels + first % lanes_;
      if (lanes == most_lanes) {
        add(values, pixels, lanes_, most_lanes, sums);
      } else {
        add(values, pixels, lanes_, lanes, sums);
      }
    }
    for (int lane = 0; lane < lanes; ++lane) {
      const double mean = sums.value[lane] / count;
      batch_mean_[first + lane] = static_cast<float>(mean);
      batch_variance_[first + lane] = static_cast<float>(std::max(sums.square[lane] / count - mean * mean, 0.0));
    }
  }
}

void BatchNorm::forward(int images) {
  compute_statistics(images);
  PrimitiveLayer::forward(images);
  const double count = double(images) * in_->shape.pixels();
  const auto move = [](float& running, double now) {
    running = static_cast<float>((1 - replaced) * double{running} + replaced * now);
  };
  for (int channel = 0; channel < in_->shape.channels; ++channel) {
    move(weights_.running_mean[channel], batch_mean_[channel]);
    move(weights_.running_variance[channel], batch_variance_[channel] * count / std::max(count - 1, 1.0));
  }
}

void BatchNorm::evaluate(int images) {
  sequences(images);
  evaluations_.at(images).execute();
}

// Forward is given its statistics, the batch's or the running ones. A ReLU leaves a mask of bits for backward.
PrimitiveLayer::Sequences BatchNorm::make(int images) {
  const auto desc = in_->desc(images);
  if (!out_->settled()) out_->settle(desc);
  const auto how = describe_batch_norm(library_.engine, desc, epsilon, relu_);
  const memory mask(how.workspace_desc(), library_.engine);
  const auto sequence_with = [&](const memory& mean, const memory& variance) {
    Sequence sequence(library_);
    sequence.add(how, {{DNNL_ARG_SRC, in_->values(images)},
                       {DNNL_ARG_DST, out_->values(images)},
                       {DNNL_ARG_SCALE, scale_},
                       {DNNL_ARG_SHIFT, shift_},
                       {DNNL_ARG_MEAN, mean},
                       {DNNL_ARG_VARIANCE, variance},
                       {DNNL_ARG_WORKSPACE, mask}});
    return sequence;
  };
  evaluations_.emplace(images, sequence_with(running_mean_, running_variance_));
  Sequences result{sequence_with(mean_, variance_), Sequence(library_)};
  Arguments backward = {{DNNL_ARG_SRC, in_->values(images)},
                        {DNNL_ARG_DIFF_DST, out_->gradients(images)},
                        {DNNL_ARG_DIFF_SRC, in_->gradients(images)},
                        {DNNL_ARG_SCALE, scale_},
                        {DNNL_ARG_MEAN, mean_},
                        {DNNL_ARG_VARIANCE, variance_},
                        {DNNL_ARG_DIFF_SCALE, scale_gradient_},
                        {DNNL_ARG_DIFF_SHIFT, shift_gradient_},
                        {DNNL_ARG_WORKSPACE, mask}};
  if (batch_norm_backward_reads_shift) backward.emplace(DNNL_ARG_SHIFT, shift_);
  result.backward.add(describe_batch_norm_backward(library_.engine, how, desc, epsilon, relu_), std::move(backward));
  return result;
}

}  // namespace models::onednn
