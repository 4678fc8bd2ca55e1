// SPDX-License-Identifier: Apache-2.0
// The two ways to describe a oneDNN primitive, behind one: version 2 makes an operation descriptor first, version 3 has
// none. Nothing else in the repository depends on the library's version.
#pragma once

#include <dnnl.hpp>

namespace models::onednn {

// Primitives work in memory that they are given. The library's own belongs to the thread that makes a primitive, and is
// lost where another thread ends it (oneDNN 2.6).
inline dnnl::primitive_attr attributes() {
  dnnl::primitive_attr result;
  result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return result;
}

// The descriptor of a forward primitive from its own arguments, which both versions take in the same order.
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., attributes()};
#else
  return {typename Primitive::desc(arguments...), attributes(), engine};
#endif
}

// The same of a backward primitive, which also takes the descriptor of the forward one.
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::engine& engine, const Hint& forward,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., forward, attributes()};
#else
  return {typename Primitive::desc(arguments...), attributes(), engine, forward};
#endif
}

// ReLU over data of one layout.
inline dnnl::eltwise_forward::primitive_desc describe_relu(const dnnl::engine& engine, const dnnl::memory::desc& data) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine,      dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, data, data, 0.0F, 0.0F,
          attributes()};
#else
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, data, 0.0F, 0.0F}, attributes(), engine};
#endif
}

inline dnnl::eltwise_backward::primitive_desc describe_relu_backward(
    const dnnl::engine& engine, const dnnl::eltwise_forward::primitive_desc& forward, const dnnl::memory::desc& data) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, dnnl::algorithm::eltwise_relu, data, data, data, 0.0F, 0.0F, forward, attributes()};
#else
  return {{dnnl::algorithm::eltwise_relu, data, data, 0.0F, 0.0F}, attributes(), engine, forward};
#endif
}

// Averages over square windows that do not overlap.
inline dnnl::pooling_forward::primitive_desc describe_average_pool(const dnnl::engine& engine,
                                                                   const dnnl::memory::desc& in,
                                                                   const dnnl::memory::desc& out, int side) {
  const dnnl::memory::dims window = {side, side}, none = {0, 0};
  const auto how = dnnl::algorithm::pooling_avg_exclude_padding;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, dnnl::prop_kind::forward_training, how, in, out, window, window, none, none, none, attributes()};
#else
  return {{dnnl::prop_kind::forward_training, how, in, out, window, window, none, none}, attributes(), engine};
#endif
}

inline dnnl::pooling_backward::primitive_desc describe_average_pool_backward(
    const dnnl::engine& engine, const dnnl::pooling_forward::primitive_desc& forward, const dnnl::memory::desc& in,
    const dnnl::memory::desc& out, int side) {
  const dnnl::memory::dims window = {side, side}, none = {0, 0};
  const auto how = dnnl::algorithm::pooling_avg_exclude_padding;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, how, in, out, window, window, none, none, none, forward, attributes()};
#else
  return {{how, in, out, window, window, none, none}, attributes(), engine, forward};
#endif
}

// Batch norm over data of one layout, with scale and shift, and perhaps a ReLU that leaves a mask of bits for backward.
// Forward is given its statistics; backward knows that they are the batch's own.
inline dnnl::normalization_flags batch_norm_flags(bool relu) {
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  return relu ? flags | dnnl::normalization_flags::fuse_norm_relu : flags;
}

inline dnnl::batch_normalization_forward::primitive_desc describe_batch_norm(const dnnl::engine& engine,
                                                                             const dnnl::memory::desc& data,
                                                                             float epsilon, bool relu) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto flags = batch_norm_flags(relu) | dnnl::normalization_flags::use_global_stats;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, data, data, epsilon, flags, attributes()};
#else
  return {{kind, data, epsilon, flags}, attributes(), engine};
#endif
}

inline dnnl::batch_normalization_backward::primitive_desc describe_batch_norm_backward(
    const dnnl::engine& engine, const dnnl::batch_normalization_forward::primitive_desc& forward,
    const dnnl::memory::desc& data, float epsilon, bool relu) {
  const auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, data, data, data, epsilon, batch_norm_flags(relu), forward, attributes()};
#else
  return {{kind, data, data, epsilon, batch_norm_flags(relu)}, attributes(), engine, forward};
#endif
}

// Whether that takes the shift, which it has no use for, as an argument: one version wants it, the other refuses it.
inline constexpr bool batch_norm_backward_reads_shift = DNNL_VERSION_MAJOR < 3;

// The sum of two of one layout, perhaps with a ReLU.
inline dnnl::binary::primitive_desc describe_sum(const dnnl::engine& engine, const dnnl::memory::desc& data,
                                                 bool relu) {
  dnnl::post_ops after;
  dnnl::primitive_attr with_relu = attributes();
#if DNNL_VERSION_MAJOR >= 3
  if (relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  with_relu.set_post_ops(after);
  return {engine, dnnl::algorithm::binary_add, data, data, data, with_relu};
#else
  if (relu) after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  with_relu.set_post_ops(after);
  return {{dnnl::algorithm::binary_add, data, data, data}, with_relu, engine};
#endif
}

}  // namespace models::onednn
