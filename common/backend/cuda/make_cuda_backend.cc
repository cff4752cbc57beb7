#include "common/backend/cuda/make_cuda_backend.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/device/device_code.h"
#include "common/backend/cuda/product/invariant/invariant_product.h"
#include "common/backend/cuda_versions.h"
#include "common/base/log.h"
#include "common/base/numerics.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::Status Refuse(int device, const std::string& why, const std::string& remedy) {
  return absl::InvalidArgumentError(
      absl::StrCat("--device cuda:", device, ": ", why, "; ", remedy, ", or use --device cpu"));
}

// What helps a driver for CUDA `driver` that is too old for this build. It runs builds made with
// toolkits that are no newer than it.
std::string OldDriverRemedy(int driver) {
  const std::string least = CudaVersionText(kLeastCudaToolkit);
  if (driver < kLeastCudaToolkit) {
    return absl::StrCat("update the driver to one for CUDA ", CudaVersionText(CUDART_VERSION),
                        ", or to ", kLeastToolkitsDriver,
                        " or newer for a build made with CUDA Toolkit ", least);
  }
  return absl::StrCat(
      "update the driver, or take a build made with a CUDA Toolkit of ", least,
      driver > kLeastCudaToolkit ? absl::StrCat(" to ", CudaVersionText(driver)) : "",
      " (CUDACXX=NVCC scripts/gpu_bundle.sh)");
}

std::string ErrorText(cudaError_t error) {
  return absl::StrCat(cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
}

// The number of devices, more than 0; or why `device` cannot be used.
absl::StatusOr<int> CountDevices(int device) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();  // clears their errors, which this function handles
  const std::string needed = CudaVersionText(CUDART_VERSION);
  if (driver == 0) {
    return Refuse(device, "found no NVIDIA driver",
                  absl::StrCat("install one for CUDA ", needed, " or newer"));
  }
  if (error == cudaErrorInsufficientDriver) {
    return Refuse(device,
                  absl::StrCat("the NVIDIA driver is for CUDA ", CudaVersionText(driver),
                               " and this build for ", needed),
                  OldDriverRemedy(driver));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return Refuse(device, "the NVIDIA driver finds no GPU",
                  visible == nullptr ? "check nvidia-smi"
                                     : absl::StrCat("check nvidia-smi and CUDA_VISIBLE_DEVICES='",
                                                    LogSafe(visible), "'"));
  }
  if (error != cudaSuccess) {
    return Refuse(device, absl::StrCat("cannot list the GPUs: ", ErrorText(error)),
                  "check nvidia-smi");
  }
  return count;
}

absl::StatusOr<cudaDeviceProp> FindDevice(int device) {
  BATON_ASSIGN_OR_RETURN(const int count, CountDevices(device));
  if (device >= count) {
    return Refuse(device, absl::StrCat("the machine has ", count, count == 1 ? " GPU" : " GPUs"),
                  count == 1 ? "use cuda:0" : absl::StrCat("use cuda:0 to cuda:", count - 1));
  }
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return Refuse(device, absl::StrCat("cannot describe it: ", ErrorText(error)),
                  "check nvidia-smi");
  }
  if (properties.major < kLeastComputeMajor) {
    return Refuse(device,
                  absl::StrCat(properties.name, " has compute capability ", properties.major, ".",
                               properties.minor),
                  absl::StrCat("use a GPU of ", kLeastComputeMajor, ".0 or newer"));
  }
  return properties;
}

// Names the compute capability, because the tensor cores of another one may add in another order.
std::string InvariantNumerics(const cudaDeviceProp& properties) {
  return absl::StrCat("cuda-sm", properties.major, properties.minor, "-invariant",
                      kInvariantVersion);
}

}  // namespace

bool CudaAvailable() { return FindDevice(0).ok(); }

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const MakeCudaOptions& options) {
  const int device = options.device;
  BATON_ASSIGN_OR_RETURN(const cudaDeviceProp properties, FindDevice(device));
  const std::string name = absl::StrFormat(
      "%s, compute capability %d.%d, %.1f GiB", properties.name, properties.major, properties.minor,
      static_cast<double>(properties.totalGlobalMem) / (1024.0 * 1024 * 1024));
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
    cudaGetLastError();
    return Refuse(device, absl::StrCat("cannot use ", name, ": ", ErrorText(error)),
                  "check nvidia-smi for other programs that use it");
  }
  if (const cudaError_t error = LoadDeviceCode(); error != cudaSuccess) {
    return Refuse(
        device, absl::StrCat("no kernels for ", name, ": ", ErrorText(error)),
        absl::StrCat("build with BATON_CUDA_ARCHITECTURES=", properties.major, properties.minor));
  }
  CudaBackendOptions backend = {
      .device = device,
      .description =
          absl::StrCat("cuda:", device, " ", name, options.deterministic ? ", deterministic" : ""),
      .numerics = options.deterministic ? InvariantNumerics(properties)
                                        : absl::StrCat("cuda", kVaryingNumerics),
      .deterministic = options.deterministic,
      .load_threads = options.load_threads};
  absl::StatusOr<std::unique_ptr<CudaBackend>> with_library = CudaBackend::Create(backend);
  if (!absl::IsNotFound(with_library.status())) return with_library;
  LogWarning(
      "Baton's own kernels take the place of cuBLASLt: prompts need up to twice the time; {}",
      std::string(with_library.status().message()));
  backend.description += ", without cuBLASLt";
  backend.library = false;
  return CudaBackend::Create(std::move(backend));
}

}  // namespace baton
