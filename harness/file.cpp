// SPDX-License-Identifier: Apache-2.0
#include "harness/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness/error.hpp"

namespace harness {
namespace {

std::string reason_of(int error) { return std::strerror(error); }

// Where the new contents are written before they take the file's name: in the same folder, or rename could not be
// atomic.
std::filesystem::path beside(const std::filesystem::path& path) {
  std::string name = ".";
  name.append(path.filename().string()).append(".").append(std::to_string(getpid())).append(".tmp");
  return path.parent_path() / name;
}

int open_new(const std::filesystem::path& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

// Writes, syncs and closes; gives errno, or 0.
int write_all(int file, std::string_view text) {
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

std::filesystem::path writable(std::string_view option, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    std::string text = "--";
    text.append(option).append("=").append(path).append(": ").append(why);
    return UsageError(text + "; allowed: a file in a folder that is there and writable");
  };
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = fs::absolute(path, error);
  for (int links = 0; fs::is_symlink(file, error); ++links) {
    if (links == 40) throw refuse("it is a link in a circle");  // as many as Linux follows
    file = file.parent_path() / fs::read_symlink(file, error);
  }
  if (!file.has_filename() || fs::is_directory(file, error)) throw refuse("it is a folder");
  if (fs::exists(file, error)) {
    // Renaming over /dev/null would replace the device.
    if (!fs::is_regular_file(file, error)) throw refuse("it is there and is no regular file");
    if (access(file.c_str(), W_OK) != 0) throw refuse(reason_of(errno));
  }
  if (!fs::is_directory(file.parent_path(), error)) {
    throw refuse("the folder " + file.parent_path().string() + " is missing");
  }
  const fs::path probe = beside(file);
  const int opened = open_new(probe);
  if (opened < 0) throw refuse(reason_of(errno));
  close(opened);
  unlink(probe.c_str());
  return file;
}

void replace_file(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = beside(path);
  const int file = open_new(temporary);
  int error = file < 0 ? errno : write_all(file, contents);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  throw Error("cannot write " + path.string() + ": " + reason_of(error));
}

}  // namespace harness
