#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/cuda/device/recent_cache.h"
#include "common/backend/cuda/product/library/cublaslt_api.h"
#include "common/backend/cuda/product/library/gemm.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

cudaDataType_t DataTypeOf(CudaElement element) {
  switch (element) {
    case CudaElement::kF32:
      return CUDA_R_32F;
    case CudaElement::kF16:
      return CUDA_R_16F;
    case CudaElement::kBf16:
      return CUDA_R_16BF;
    default:
      BATON_CHECK(false, "the element must be a float type");
  }
}

// Everything that the library's selection of an algorithm depends on. Alignments are in bytes, at
// most 256.
struct Shape {
  CudaElement element;
  int rows;
  int columns;
  int outputs;
  int out_stride;
  uint32_t in_alignment;
  uint32_t weight_alignment;
  uint32_t out_alignment;

  auto Key() const {
    return std::tie(element, rows, columns, outputs, out_stride, in_alignment, weight_alignment,
                    out_alignment);
  }
  friend bool operator<(const Shape& a, const Shape& b) { return a.Key() < b.Key(); }
};

uint32_t AlignmentOf(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), 256));
}

Shape ShapeOf(const Gemm::Product& product) {
  return {.element = product.weight.element,
          .rows = product.rows,
          .columns = product.weight.columns,
          .outputs = product.weight.rows,
          .out_stride = product.out_stride,
          .in_alignment = AlignmentOf(product.in),
          .weight_alignment = AlignmentOf(product.weight.data),
          .out_alignment = AlignmentOf(product.out)};
}

std::string Describe(const Shape& shape) {
  return absl::StrCat("product of ", shape.rows, " rows, ", shape.columns, " columns, ",
                      shape.outputs, " outputs");
}

// An object of the library, destroyed with the library's function for it.
template <class Object>
using Owned = std::unique_ptr<std::remove_pointer_t<Object>, cublasStatus_t (*)(Object)>;

// The algorithm for a shape, and the arguments it is called with.
struct Plan {
  Owned<cublasLtMatmulDesc_t> operation;
  Owned<cublasLtMatrixLayout_t> weight;
  Owned<cublasLtMatrixLayout_t> in;
  Owned<cublasLtMatrixLayout_t> out;
  cublasLtMatmulAlgo_t algorithm;
};

absl::StatusOr<Owned<cublasLtMatrixLayout_t>> MakeLayout(const CublasLtApi& api,
                                                         cudaDataType_t type, int rows, int columns,
                                                         int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  BATON_RETURN_IF_ERROR(api.ToStatus(api.create_layout(&layout, type, static_cast<uint64_t>(rows),
                                                       static_cast<uint64_t>(columns), stride),
                                     "matrix layout"));
  return Owned<cublasLtMatrixLayout_t>(layout, api.destroy_layout);
}

absl::StatusOr<Owned<cublasLtMatmulPreference_t>> MakePreference(const CublasLtApi& api,
                                                                 const Shape& shape) {
  cublasLtMatmulPreference_t raw = nullptr;
  BATON_RETURN_IF_ERROR(api.ToStatus(api.create_preference(&raw), "preference"));
  Owned<cublasLtMatmulPreference_t> preference(raw, api.destroy_preference);
  const uint64_t workspace = Gemm::kWorkspaceBytes;
  BATON_RETURN_IF_ERROR(
      api.ToStatus(api.set_preference(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                      sizeof(workspace)),
                   "workspace"));
  const std::pair<cublasLtMatmulPreferenceAttributes_t, uint32_t> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.weight_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.in_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment}};
  for (const auto& [attribute, bytes] : alignments) {
    BATON_RETURN_IF_ERROR(
        api.ToStatus(api.set_preference(raw, attribute, &bytes, sizeof(bytes)), "alignment"));
  }
  return preference;
}

// The library's matrices are column-major. It sees `out` as [outputs, rows], the weight as
// [columns, outputs], transposed, and `in` as [columns, rows].
absl::StatusOr<Plan> MakePlan(const CublasLtApi& api, cublasLtHandle_t handle, const Shape& shape) {
  const cudaDataType_t type = DataTypeOf(shape.element);
  const int64_t weight_stride = static_cast<int64_t>(CudaRowBytes(shape.element, shape.columns) /
                                                     ElementBytes(shape.element));
  cublasLtMatmulDesc_t raw = nullptr;
  BATON_RETURN_IF_ERROR(
      api.ToStatus(api.create_operation(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F), "operation"));
  Owned<cublasLtMatmulDesc_t> operation(raw, api.destroy_operation);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  BATON_RETURN_IF_ERROR(api.ToStatus(
      api.set_operation(raw, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
      "transposition"));
  BATON_ASSIGN_OR_RETURN(auto weight,
                         MakeLayout(api, type, shape.columns, shape.outputs, weight_stride));
  BATON_ASSIGN_OR_RETURN(auto in, MakeLayout(api, type, shape.columns, shape.rows, shape.columns));
  BATON_ASSIGN_OR_RETURN(auto out,
                         MakeLayout(api, CUDA_R_32F, shape.outputs, shape.rows, shape.out_stride));
  BATON_ASSIGN_OR_RETURN(auto preference, MakePreference(api, shape));

  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  BATON_RETURN_IF_ERROR(api.ToStatus(api.heuristic(handle, raw, weight.get(), in.get(), out.get(),
                                                   out.get(), preference.get(), 1, &best, &found),
                                     absl::StrCat("algorithm for a ", Describe(shape))));
  if (found == 0) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no algorithm for a ", Describe(shape)));
  }
  return Plan{std::move(operation), std::move(weight), std::move(in), std::move(out), best.algo};
}

}  // namespace

struct Gemm::Rep {
  CublasLtApi api;
  cublasLtHandle_t handle = nullptr;
  BackendBuffer workspace;
  RecentCache<Shape, Plan> plans{kMaxShapes};

  ~Rep() {
    if (handle != nullptr) api.destroy(handle);
  }
};

Gemm::Gemm(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Gemm::~Gemm() = default;

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() {
  auto rep = std::make_unique<Rep>();
  BATON_ASSIGN_OR_RETURN(rep->api, CublasLtApi::Load());
  BATON_RETURN_IF_ERROR(rep->api.ToStatus(rep->api.create(&rep->handle), "start"));
  BATON_ASSIGN_OR_RETURN(rep->workspace, AllocateDeviceMemory(kWorkspaceBytes));
  return std::unique_ptr<Gemm>(new Gemm(std::move(rep)));
}

absl::Status Gemm::Multiply(const Product& product, cudaStream_t stream) {
  BATON_CHECK(product.rows > 0 && product.out_stride >= product.weight.rows, "rows of the product");
  const Shape shape = ShapeOf(product);
  Plan* plan = rep_->plans.Find(shape);
  if (plan == nullptr) {
    BATON_ASSIGN_OR_RETURN(Plan made, MakePlan(rep_->api, rep_->handle, shape));
    plan = &rep_->plans.Insert(shape, std::move(made));
  }
  const float beta = product.accumulate ? 1.0f : 0.0f;
  return rep_->api.ToStatus(
      rep_->api.matmul(rep_->handle, plan->operation.get(), &product.scale, product.weight.data,
                       plan->weight.get(), product.in, plan->in.get(), &beta, product.out,
                       plan->out.get(), product.out, plan->out.get(), &plan->algorithm,
                       rep_->workspace.data(), kWorkspaceBytes, stream),
      Describe(shape));
}

}  // namespace baton
