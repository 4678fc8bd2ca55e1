// SPDX-License-Identifier: Apache-2.0
// The two ways to describe a oneDNN primitive, behind one: version 2 makes an operation descriptor first, version 3 has
// none. Nothing else in the repository depends on the library's version.
#pragma once

#include <dnnl.hpp>

namespace models::onednn {

// The descriptor of a forward primitive from its own arguments, which both versions take in the same order.
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments...};
#else
  return {typename Primitive::desc(arguments...), engine};
#endif
}

// The same of a backward primitive, which also takes the descriptor of the forward one.
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::engine& engine, const Hint& forward,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., forward};
#else
  return {typename Primitive::desc(arguments...), engine, forward};
#endif
}

// ReLU over data of one layout.
inline dnnl::eltwise_forward::primitive_desc describe_relu(const dnnl::engine& engine, const dnnl::memory::desc& data) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, data, data, 0.0F, 0.0F};
#else
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, data, 0.0F, 0.0F}, engine};
#endif
}

inline dnnl::eltwise_backward::primitive_desc describe_relu_backward(
    const dnnl::engine& engine, const dnnl::eltwise_forward::primitive_desc& forward, const dnnl::memory::desc& data) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, dnnl::algorithm::eltwise_relu, data, data, data, 0.0F, 0.0F, forward};
#else
  return {{dnnl::algorithm::eltwise_relu, data, data, 0.0F, 0.0F}, engine, forward};
#endif
}

// Averages over square windows that do not overlap.
inline dnnl::pooling_forward::primitive_desc describe_average_pool(const dnnl::engine& engine,
                                                                   const dnnl::memory::desc& in,
                                                                   const dnnl::memory::desc& out, int side) {
  const dnnl::memory::dims window = {side, side}, none = {0, 0};
  const auto how = dnnl::algorithm::pooling_avg_exclude_padding;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, dnnl::prop_kind::forward_training, how, in, out, window, window, none, none, none};
#else
  return {{dnnl::prop_kind::forward_training, how, in, out, window, window, none, none}, engine};
#endif
}

inline dnnl::pooling_backward::primitive_desc describe_average_pool_backward(
    const dnnl::engine& engine, const dnnl::pooling_forward::primitive_desc& forward, const dnnl::memory::desc& in,
    const dnnl::memory::desc& out, int side) {
  const dnnl::memory::dims window = {side, side}, none = {0, 0};
  const auto how = dnnl::algorithm::pooling_avg_exclude_padding;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, how, in, out, window, window, none, none, none, forward};
#else
  return {{how, in, out, window, window, none, none}, engine, forward};
#endif
}

}  // namespace models::onednn
