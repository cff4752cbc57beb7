// Facts from NVIDIA's driver about this machine's GPUs. Its libraries are opened while the program
// runs, so that nothing links CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/backend/cuda_versions.h"

namespace baton {

enum class GpuComputeMode { kShared, kExclusive, kProhibited };

struct GpuDevice {
  std::string name{};
  int major = 0, minor = 0;  // compute capability
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // 0: unknown
  GpuComputeMode compute_mode = GpuComputeMode::kShared;
};

struct GpuFacts {
  bool hardware = false;  // whether the machine has a GPU of NVIDIA's, with a driver or without
  std::string kernel_driver{};  // version of the driver's module, such as "550.54.15"; empty: none
  std::string error{};          // why the driver's library does not answer; empty: it does
  CudaVersion driver_cuda = 0;  // the newest CUDA that the driver knows; 0: unknown
  std::vector<GpuDevice> devices{};
  bool mps_runs = false;  // NVIDIA's multi-process service
  // Whether this build's backend accepts the first device. UNIMPLEMENTED: it has no CUDA.
  absl::Status backend{};
};

// `root` is before /proc and /sys; empty: this machine's own. If there is a GPU, the backend is
// asked for the first, which takes a moment and some of its memory until the process ends.
GpuFacts GatherGpuFacts(const std::string& root = "");

}  // namespace baton
