// SPDX-License-Identifier: Apache-2.0
#include "models/download.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <vector>

#include "harness/error.hpp"
#include "models/sha256.hpp"

namespace models {

namespace {

// The exit status of a program found on PATH, or nothing when there is none of that name.
std::optional<int> run_program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error == ENOENT) return std::nullopt;
  if (error != 0) throw harness::Error("cannot run " + words[0] + ": " + std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw harness::Error("cannot wait for " + words[0] + ": " + std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void fetch(const std::string& url, const std::string& file) {
  std::string program = "curl";
  auto status = run_program({program, "--fail", "--location", "--silent", "--show-error", "--connect-timeout", "20",
                             "--max-time", "900", "--output", file, url});
  if (!status) {
    program = "wget";
    status = run_program({program, "--quiet", "--timeout=20", "--tries=2", "--output-document=" + file, url});
  }
  if (!status) throw harness::Error(url + " cannot be downloaded: there is neither curl nor wget");
  if (*status != 0) {
    throw harness::Error(url + " cannot be downloaded: " + program + " ended with status " + std::to_string(*status));
  }
}

}  // namespace

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && std::filesystem::path(cache).is_absolute()) return std::filesystem::path(cache) / "ringmark";
  const char* home = std::getenv("HOME");
  if (home && std::filesystem::path(home).is_absolute()) return std::filesystem::path(home) / ".cache" / "ringmark";
  throw harness::Error("there is no folder to keep downloads in: neither XDG_CACHE_HOME nor HOME is a path");
}

void download(const std::string& url, const std::filesystem::path& target, const std::string& expected_sha256) {
  std::error_code error;
  std::filesystem::create_directories(target.parent_path(), error);
  if (error) throw harness::Error(target.parent_path().string() + " cannot be made: " + error.message());
  std::cerr << "downloading " << url << " to " << target.string() << std::endl;
  const std::filesystem::path partial = target.string() + "." + std::to_string(::getpid()) + ".part";
  try {
    fetch(url, partial.string());
    std::ifstream stream(partial, std::ios::binary);
    const std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (sha256(bytes) != expected_sha256) {
      throw harness::Error(url + " is not what it should be: " + std::to_string(bytes.size()) +
                           " bytes came, whose SHA-256 is not " + expected_sha256);
    }
    std::filesystem::rename(partial, target);
  } catch (...) {
    std::filesystem::remove(partial, error);
    throw;
  }
}

}  // namespace models
