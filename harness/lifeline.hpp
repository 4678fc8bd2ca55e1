// SPDX-License-Identifier: Apache-2.0
// How the processes of a job know that the others live: a TCP connection of each to rank 0, apart from whatever carries
// their data, with a thread that sends a sign of life ("a beat": what the process is at) and listens. A process that
// dies closes its connection, one that is stopped or cut off falls silent; who ends the job tells all others why.
// No library of message passing can say so by itself: a rank that is stopped just never answers.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace harness {

// Why a job ends before its end.
struct JobEnd {
  std::string reason;
  bool timed_out = false;  // nobody died: something took longer than it may
  int status = 1;          // of the processes
};

class Lifeline {
 public:
  struct Job {
    int rank = 0, size = 1;
    std::function<std::string(std::string)> broadcast;  // gives rank 0's text to all: how the others find it
    std::function<std::string(int)> name;               // of a rank, for people: "rank 1 on host1"
  };

  // Collective. Throws Error where the processes cannot reach each other.
  explicit Lifeline(const Job& job);
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;
  ~Lifeline();  // in good order: the others do not take it for a death

  // Rank 0 calls `told` once, in the lifeline's own thread or in that of `end`, before all processes are left: there is
  // the place to save what is there. Without one it only says the reason on stderr.
  void on_end(std::function<void(const JobEnd&)> told);
  // What this process is at, for the message when it is lost.
  void at(std::string what);
  // Ends all processes of the job: rank 0 says why, after it has looked who is silent.
  [[noreturn]] void end(const JobEnd& why);
  // An address of this host at which the others reach it.
  std::string address() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace harness
