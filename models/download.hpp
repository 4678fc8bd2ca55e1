// SPDX-License-Identifier: Apache-2.0
// Files from the web, by the program that the machine has for it (curl, else wget), run without a shell.
#pragma once

#include <filesystem>
#include <string>

namespace models {

// $XDG_CACHE_HOME/ringmark, else ~/.cache/ringmark, as the XDG Base Directory Specification 0.8 says. Throws
// harness::Error when the environment names neither.
std::filesystem::path cache_folder();

// Brings `url` into `target`, whose folder is made, and says so on stderr. The file appears there whole, and only if
// its SHA-256 is the expected one. Throws harness::Error.
void download(const std::string& url, const std::filesystem::path& target, const std::string& expected_sha256);

}  // namespace models
