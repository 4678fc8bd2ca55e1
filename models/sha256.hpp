// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a piece of memory: NIST FIPS 180-4, "Secure Hash Standard" (2015), section 6.2. For the checksums of data
// files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace models {

// 64 hexadecimal digits in lower case.
std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace models
