// SPDX-License-Identifier: Apache-2.0
// The catalogue of algorithms, of all-reduce and of the other collectives: a name, what is said of it, and the function
// that writes it down.
#pragma once

#include <span>
#include <string_view>

#include "allreduce/schedule.hpp"

namespace allreduce {

// All to rank 0, which adds them in rank order and sends the sum back: the parameter server of Li et al., "Scaling
// Distributed Machine Learning with the Parameter Server" (OSDI 2014), in its textbook form, with one server, which is
// rank 0. The server's link carries 2(n-1) vectors.
Schedule parameter_server(const Shape& shape);

// A binomial reduction to rank 0 and a binomial broadcast from it: Thakur, Rabenseifner, Gropp, "Optimization of
// Collective Communication Operations in MPICH" (2005), sections 4.3 and 4.4. 2 ceil(log2 n) steps of a whole vector.
Schedule tree(const Shape& shape);

// A reduce-scatter around the ring and an all-gather around it: Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations" (2009). 2(n-1) steps of an n-th of the vector.
Schedule ring(const Shape& shape);

// As ring, with one half of the vector going round each way, for links that carry both directions at once: Jain and
// Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects" (ICS 2010), in one dimension.
Schedule bidirectional_ring(const Shape& shape);

// Partners at distance 1, 2, 4 and so on exchange whole vectors and both add: Thakur, Rabenseifner, Gropp (2005),
// section 4.5. ceil(log2 n) steps of a whole vector, and two more where n is no power of two.
Schedule recursive_doubling(const Shape& shape);

// A reduce-scatter by halves of the vector at distance 1, 2, 4 and so on, an all-gather the other way round:
// Rabenseifner, "Optimization of collective reduction operations" (ICCS 2004). As few bytes as ring, 2 log2 n steps;
// three more steps where n is no power of two.
Schedule halving_doubling(const Shape& shape);

// Two binary trees, each for one half of the vector, in which every rank but one or two is a leaf of one of them:
// Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009); in NCCL
// since 2.4. With many pieces every link carries the vector about once each way.
Schedule double_tree(const Shape& shape);

// Everyone owns a slice, adds up all its contributions and hands out the sum: the parameter server with a shard on
// every rank (Li et al. 2014), and the two-shot kernel of NVIDIA's TensorRT-LLM (2023). Two steps of an n-th to
// everyone.
Schedule two_shot(const Shape& shape);

// Everyone reads everyone and adds in the order of ranks: the one-shot kernel of NVIDIA's TensorRT-LLM (2023). One
// step, n - 1 vectors to everyone.
Schedule one_shot(const Shape& shape);

// A reduce-scatter in each group, an all-reduce of each slice among its owners, an all-gather in each group, all around
// rings: Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy" (MLSys
// 2019). As few bytes as ring, of which only 2(g-1)/g of a slice, for g groups, leaves a group from each rank.
Schedule hierarchical(const Shape& shape);

// Each group's first rank adds up its group, the leaders all-reduce around a ring, and hand the sum back: Jia et al.,
// "Highly scalable deep learning training system with mixed-precision: training ImageNet in four minutes" (2018).
Schedule leader(const Shape& shape);

// Ranks as rows and columns, as square as their number allows. A reduce-scatter along one dimension, an all-reduce
// along the other, an all-gather back along the first: Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50
// training in a flash" (2018); one half of the vector begins with the rows and one with the columns, after Jain and
// Sabharwal (2010). As few bytes as ring, about 4 sqrt(n) steps.
Schedule torus(const Shape& shape);

// The other collectives, by the same means.
//
// Around the ring, as the halves of the ring all-reduce; straight between owner and all others; in ceil(log2 n) steps
// to the half of the ranks that is not there yet, for any n: Bruck et al., "Efficient algorithms for all-to-all
// communications in multiport message-passing systems" (1997), and backwards Traeff, "Optimal, non-pipelined
// reduce-scatter and allreduce algorithms" (2024). Every rank sends n - 1 slices.
Schedule ring_reduce_scatter(const Shape& shape);
Schedule direct_reduce_scatter(const Shape& shape);
Schedule dissemination_reduce_scatter(const Shape& shape);
Schedule ring_all_gather(const Shape& shape);
Schedule direct_all_gather(const Shape& shape);
Schedule dissemination_all_gather(const Shape& shape);
// Straight from or to the root; by a binomial tree (Thakur, Rabenseifner, Gropp 2005); along a chain, which with many
// pieces sends the vector over every link once.
Schedule direct_broadcast(const Shape& shape);
Schedule tree_broadcast(const Shape& shape);
Schedule ring_broadcast(const Shape& shape);
Schedule direct_reduce(const Shape& shape);
Schedule tree_reduce(const Shape& shape);
Schedule ring_reduce(const Shape& shape);

// Ranks of a group of hierarchical and leader: as asked for, at most all. By default the smallest divisor of their
// number that is at least its square root.
int group_of(const Shape& shape);

struct Algorithm {
  std::string_view name;
  std::string_view summary;
  Schedule (*build)(const Shape&);
  // The busiest rank sends and receives just busbw_factor of the vector, for any n, as nccl-tests' busbw supposes.
  bool busbw_is_link_speed;
  bool grouped = false;  // heeds Shape::group
  Collective collective = Collective::allreduce;
};

// The rows of a collective.
std::span<const Algorithm> algorithms(Collective collective = Collective::allreduce);

// The names that were asked for; those of all rows where one of them is "all".
std::vector<std::string> select_algorithms(const std::vector<std::string>& wanted,
                                           Collective collective = Collective::allreduce);

// The row of that name, or null.
const Algorithm* find_algorithm(std::string_view name, Collective collective = Collective::allreduce);

}  // namespace allreduce
