// SPDX-License-Identifier: Apache-2.0
// Whether a copy between GPUs can be part of a recorded graph: by cudaMemcpyPeerAsync, and by address. A call that is
// refused may leave the recording valid and the copy silently missing, so the memory is looked at, too.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t bytes = 1 << 16;

enum class By { peer, address };

const char* capture(int from, int to, By by) {
  std::vector<char> sent(bytes, 42), got(bytes, 0);
  void *source = nullptr, *target = nullptr;
  cudaStream_t stream = nullptr;
  cudaSetDevice(from);
  if (cudaMalloc(&source, bytes) != cudaSuccess) return "no memory";
  cudaSetDevice(to);
  if (from != to) cudaDeviceEnablePeerAccess(from, 0);
  if (cudaMalloc(&target, bytes) != cudaSuccess) return "no memory";
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return "no stream";
  const auto copied = [&]() -> const char* {
    cudaMemcpy(source, sent.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(target, got.data(), bytes, cudaMemcpyHostToDevice);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) return "recording is refused";
    const cudaError_t issued = by == By::peer ? cudaMemcpyPeerAsync(target, to, source, from, bytes, stream)
                                              : cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (issued != cudaSuccess) {
      if (graph) cudaGraphDestroy(graph);
      return ended == cudaSuccess ? "the copy is refused, the recording stays valid without it" : "refused";
    }
    if (ended != cudaSuccess || cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) return "refused at its end";
    const bool ran = cudaGraphLaunch(executable, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess;
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    if (!ran) return "fails when it runs";
    cudaMemcpy(got.data(), target, bytes, cudaMemcpyDeviceToHost);
    return got == sent ? "works" : "ARRIVES WRONG";
  };
  const char* verdict = copied();
  cudaGetLastError();
  cudaStreamDestroy(stream);
  cudaSetDevice(from);
  cudaFree(source);
  cudaSetDevice(to);
  cudaFree(target);
  return verdict;
}

}  // namespace

int main(int argc, char**) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) gpus = 0;
  if (argc > 1) {  // --count
    std::printf("%d\n", gpus);
    return 0;
  }
  if (gpus == 0) {
    std::printf("there is no GPU\n");
    return 77;
  }
  bool wrong = false;
  const int other = gpus > 1 ? 1 : 0;
  for (const auto& [name, by] :
       {std::pair{"cudaMemcpyPeerAsync", By::peer}, std::pair{"cudaMemcpyAsync", By::address}}) {
    const char* verdict = capture(other, 0, by);
    wrong = wrong || std::strcmp(verdict, "ARRIVES WRONG") == 0;
    std::printf("%s from GPU %d to GPU 0, recorded: %s\n", name, other, verdict);
  }
  return wrong ? 1 : 0;
}
