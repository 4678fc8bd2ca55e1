// SPDX-License-Identifier: Apache-2.0
// The element types and reduction operations of a collective, under the names that NCCL and PyTorch give them, and the
// two 16-bit formats as C++ types. All of it is plain data, shared by every kind of device.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "harness/device/reduction.hpp"

namespace harness {

// Bytes of one element.
std::size_t size_of(Dtype);

std::string_view name(Dtype);
std::string_view name(Op);
std::optional<Dtype> parse_dtype(std::string_view);
std::optional<Op> parse_op(std::string_view);

// IEEE 754 binary16; arithmetic happens in float, rounded to nearest even.
__extension__ using Half = _Float16;

// bfloat16: the upper half of a float, rounded to nearest even.
class Bfloat16 {
 public:
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    bits_ = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }

 private:
  std::uint16_t bits_;
};

}  // namespace harness
