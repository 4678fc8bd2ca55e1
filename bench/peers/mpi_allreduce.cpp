// SPDX-License-Identifier: Apache-2.0
// MPI_Allreduce, started by mpirun: mpi_allreduce BYTES SAMPLES RUNS.
#include <mpi.h>

#include "bench/peers/peer.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const peer::Work work = peer::work_of(argv + 1);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<float> data;
  const auto all_reduce = [&] {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  auto seconds = peer::measure(work, rank, ranks, data, all_reduce, [] { MPI_Barrier(MPI_COMM_WORLD); });
  std::vector<double> slowest(seconds.size());
  MPI_Reduce(seconds.data(), slowest.data(), work.samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) peer::print(slowest);
  MPI_Finalize();
}
