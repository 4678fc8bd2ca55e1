// SPDX-License-Identifier: Apache-2.0
#include "harness/world.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "harness/error.hpp"
#include "harness/launcher.hpp"
#include "harness/lifeline.hpp"

namespace harness {
namespace {

TEST(Launcher, IsKnownByTheVariablesOfEachProcess) {
  const char* const openmpi[] = {"HOME=/", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", nullptr};
  EXPECT_EQ(find_launcher(openmpi)->name, "Open MPI's mpirun");
  EXPECT_EQ(find_launcher(openmpi)->rank, 2);
  EXPECT_EQ(find_launcher(openmpi)->size, 4);
  const char* const mpich[] = {"PMI_RANK=0", "PMI_SIZE=2", nullptr};
  EXPECT_EQ(find_launcher(mpich)->size, 2);
  const char* const srun[] = {"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=8", "SLURM_NTASKS=8", nullptr};
  EXPECT_EQ(find_launcher(srun)->name, "srun");
  const char* const torchrun[] = {"RANK=1", "WORLD_SIZE=2", nullptr};
  EXPECT_EQ(find_launcher(torchrun)->name, "torchrun");
}

TEST(Launcher, IsNoneWithoutBothItsVariablesOrInABatchScript) {
  const char* const nothing[] = {"HOME=/", nullptr};
  EXPECT_FALSE(find_launcher(nothing));
  EXPECT_FALSE(find_launcher(nullptr));
  const char* const half[] = {"OMPI_COMM_WORLD_SIZE=4", "RANK=3", nullptr};
  EXPECT_FALSE(find_launcher(half));
  const char* const batch_script[] = {"SLURM_PROCID=0", "SLURM_NTASKS=8", nullptr};
  EXPECT_FALSE(find_launcher(batch_script));
  const char* const nonsense[] = {"PMI_RANK=x", "PMI_SIZE=2", nullptr};
  EXPECT_FALSE(find_launcher(nonsense));
  const char* const beyond[] = {"PMI_RANK=2", "PMI_SIZE=2", nullptr};
  EXPECT_FALSE(find_launcher(beyond));
}

TEST(World, OfOneProcessIsRankZeroAndGivesBackWhatItGets) {
  World world;
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_FALSE(world.joined());
  world.barrier();
  EXPECT_EQ(world.max(2.5), 2.5);
  EXPECT_EQ(world.gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(world.broadcast("y"), "y");
  world.agree("the weather", "fine");
  const auto described = world.describe("cpu:1", false);
  EXPECT_EQ(described["hosts"], nlohmann::json({"host0"}));
  EXPECT_EQ(described["rank_map"][0]["device"], "cpu:1");
  EXPECT_GT(described["rank_map"][0]["cores"].size(), 0U);
}

// Three processes with a lifeline, which rank 0's address reaches over pipes. What each does then is up to the test.
class Job {
 public:
  explicit Job(const std::function<void(int rank, Lifeline&)>& work) {
    EXPECT_EQ(pipe(errors_.data()), 0);
    for (auto& each : address_) EXPECT_EQ(pipe(each.data()), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      pids_[rank] = fork();
      if (pids_[rank] == 0) be(rank, work);
    }
    close(errors_[1]);
  }
  pid_t operator[](int rank) const { return pids_[rank]; }

  // Exit statuses, or minus the signal; and what was said on stderr.
  std::array<int, 3> statuses() {
    std::array<int, ranks> found{};
    for (int rank = 0; rank < ranks; ++rank) {
      int status = 0;
      waitpid(pids_[rank], &status, 0);
      found[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    char bytes[4096];
    for (ssize_t count; (count = read(errors_[0], bytes, sizeof bytes)) > 0;) said_.append(bytes, count);
    return found;
  }
  const std::string& said() const { return said_; }

 private:
  static constexpr int ranks = 3;

  [[noreturn]] void be(int rank, const std::function<void(int, Lifeline&)>& work) {
    alarm(60);
    dup2(errors_[1], 2);
    close(errors_[1]);
    const auto broadcast = [&](const std::string& text) {
      if (rank == 0) {
        for (int other = 1; other < ranks; ++other) {
          if (write(address_[other][1], text.data(), text.size()) < 0) std::_Exit(99);
        }
        return text;
      }
      char bytes[4096];
      const auto count = read(address_[rank][0], bytes, sizeof bytes);
      return std::string(bytes, count > 0 ? count : 0);
    };
    {
      Lifeline lifeline({rank, ranks, broadcast, [](int each) { return "rank " + std::to_string(each); }});
      work(rank, lifeline);
    }
    std::_Exit(0);
  }

  std::array<int, 2> errors_{};
  std::array<std::array<int, 2>, ranks> address_{};
  std::array<pid_t, ranks> pids_{};
  std::string said_;
};

void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(Lifeline, LetsProcessesGoThatLeaveInGoodOrder) {
  Job job([](int rank, Lifeline& lifeline) {
    EXPECT_FALSE(lifeline.address().empty());
    rest(0.1 * rank);
  });
  EXPECT_EQ(job.statuses(), (std::array{0, 0, 0}));
  EXPECT_EQ(job.said(), "");
}

TEST(Lifeline, NamesTheOneThatDiedAndWhatItWasAtAndEndsTheOthers) {
  Job job([](int rank, Lifeline& lifeline) {
    lifeline.at("step " + std::to_string(rank));
    rest(rank == 1 ? 0.8 : 30);
    if (rank == 1) raise(SIGKILL);
  });
  EXPECT_EQ(job.statuses(), (std::array{1, -SIGKILL, 1}));
  EXPECT_NE(job.said().find("rank 1 ended (it was at: step 1)"), std::string::npos) << job.said();
}

TEST(Lifeline, NamesTheOneThatFellSilentWhenAnotherGivesUp) {
  Job job([](int rank, Lifeline& lifeline) {
    lifeline.at("adding");
    rest(rank == 2 ? 0.8 : 3);
    if (rank == 2) raise(SIGSTOP);
    if (rank == 1) rest(30);
    lifeline.on_end(
        [](const JobEnd& why) { fprintf(stderr, "told: %s%s\n", why.reason.c_str(), why.timed_out ? " (time)" : ""); });
    lifeline.end({.reason = "no answer", .timed_out = true});
  });
  rest(6);
  kill(job[2], SIGKILL);
  EXPECT_EQ(job.statuses(), (std::array{1, 1, -SIGKILL}));
  EXPECT_NE(job.said().find("told: rank 2 is silent since"), std::string::npos) << job.said();
  EXPECT_NE(job.said().find("(it was at: adding); no answer (time)"), std::string::npos) << job.said();
}

TEST(Lifeline, TellsTheFailureOfAnyByRankZeroWithItsStatus) {
  Job job([](int rank, Lifeline& lifeline) {
    if (rank != 2) rest(30);
    lifeline.end({.reason = "has no disk", .status = 2});
  });
  EXPECT_EQ(job.statuses(), (std::array{2, 2, 2}));
  EXPECT_NE(job.said().find("rank 2: has no disk"), std::string::npos) << job.said();
}

TEST(Lifeline, EndsAllWhenTheLauncherTerminatesRankZero) {
  Job job([](int, Lifeline& lifeline) {
    lifeline.at("waiting");
    rest(30);
  });
  rest(1);
  kill(job[0], SIGTERM);
  EXPECT_EQ(job.statuses(), (std::array{1, 1, 1}));
  EXPECT_NE(job.said().find("SIGTERM"), std::string::npos) << job.said();
  EXPECT_NE(job.said().find("waiting"), std::string::npos) << job.said();
}

}  // namespace
}  // namespace harness
