// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether this is a build with a sanitizer, where everything takes ten times as long: fewer repetitions will do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
