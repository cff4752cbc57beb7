#include "common/backend/cuda/device/device_code.h"

namespace baton {
namespace {

__global__ void Nothing() {}

}  // namespace

cudaError_t LoadDeviceCode() {
  cudaFuncAttributes attributes;
  const cudaError_t error =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&Nothing));
  cudaGetLastError();  // clears the error, or the next check of a launch would find it
  return error;
}

}  // namespace baton
