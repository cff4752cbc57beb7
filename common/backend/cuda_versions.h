// The requirements of a build with CUDA on a machine, also for programs without CUDA that report
// them.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"

namespace baton {

// A version as CUDA counts them: 12040 is 12.4.
using CudaVersion = int;

inline constexpr CudaVersion kLeastCudaToolkit = 12040;  // the oldest that CMakeLists.txt accepts
// The oldest driver that knows kLeastCudaToolkit.
inline constexpr char kLeastToolkitsDriver[] = "550";
// The least compute capability, without its minor number: it has bf16 in the tensor cores, and
// asynchronous copies.
inline constexpr int kLeastComputeMajor = 8;

// "12.4" for 12040.
inline std::string CudaVersionText(CudaVersion version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace baton
