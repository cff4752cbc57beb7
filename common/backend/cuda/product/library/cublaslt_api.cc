#include "common/backend/cuda/product/library/cublaslt_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

#include "common/backend/cuda/device/library_search.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Finds functions of a library; remembers the first that is missing.
struct Resolver {
  void* library;
  const char* missing = nullptr;

  template <class Function>
  void Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  }
};

}  // namespace

absl::StatusOr<CublasLtApi> CublasLtApi::Load() {
  const std::string soname = absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR);
  const std::string remedy = absl::StrCat(
      "install the CUDA Toolkit ", CUBLAS_VER_MAJOR, " or the Python package nvidia-cublas",
      CUBLAS_VER_MAJOR == 12 ? "-cu12" : "", ", or name the library's folder in LD_LIBRARY_PATH");
  BATON_ASSIGN_OR_RETURN(void* library,
                         LoadSharedLibrary(soname, remedy, LibrarySearch::OfThisProcess()));
  CublasLtApi api;
  Resolver resolver = {library};
  resolver.Find("cublasLtCreate", api.create);
  resolver.Find("cublasLtDestroy", api.destroy);
  resolver.Find("cublasLtGetStatusString", api.status_string);
  resolver.Find("cublasLtMatmul", api.matmul);
  resolver.Find("cublasLtMatmulAlgoGetHeuristic", api.heuristic);
  resolver.Find("cublasLtMatmulDescCreate", api.create_operation);
  resolver.Find("cublasLtMatmulDescDestroy", api.destroy_operation);
  resolver.Find("cublasLtMatmulDescSetAttribute", api.set_operation);
  resolver.Find("cublasLtMatrixLayoutCreate", api.create_layout);
  resolver.Find("cublasLtMatrixLayoutDestroy", api.destroy_layout);
  resolver.Find("cublasLtMatmulPreferenceCreate", api.create_preference);
  resolver.Find("cublasLtMatmulPreferenceDestroy", api.destroy_preference);
  resolver.Find("cublasLtMatmulPreferenceSetAttribute", api.set_preference);
  if (resolver.missing != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("shared library ", soname, " has no ", resolver.missing, ": ", remedy));
  }
  return api;
}

absl::Status CublasLtApi::ToStatus(cublasStatus_t status, const std::string& what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat("cuBLASLt, ", what, ": ", status_string(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(message);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace baton
