// The functions of cuBLASLt that products need, from the shared library loaded at run time.
#pragma once

#include <cublasLt.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// The library's functions; valid until the process ends.
struct CublasLtApi {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;

  // NOT_FOUND says where the library was searched, FAILED_PRECONDITION which function it lacks.
  static absl::StatusOr<CublasLtApi> Load();

  // OK, or `what` with the library's words for the status.
  absl::Status ToStatus(cublasStatus_t status, const std::string& what) const;
};

}  // namespace baton
