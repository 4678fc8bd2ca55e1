// SPDX-License-Identifier: Apache-2.0
// What a reduce is asked to do, as plain data of C++17: GPU kernels are compiled as no later standard.
#pragma once

namespace harness {

enum class Dtype { f32, f64, f16, bf16, i32 };
enum class Op { sum, avg, min, max, prod };

// What one reduce does: into[i] = into[i] (op) from[i], then, where `divisor` is above one, into[i] /= divisor.
// `avg` adds like `sum`; its division belongs to the one reduce that completes an element. Integers wrap around as
// unsigned ones do and divide towards zero.
struct Reduction {
  Dtype dtype = Dtype::f32;
  Op op = Op::sum;
  int divisor = 1;
};

}  // namespace harness
