// Takes tensors out of a model file by name, checks them, and loads them into a backend's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/gguf/gguf_file.h"
#include "common/model/weights.h"

namespace baton {

// Remembers which tensors were taken. Borrows file and backend. INVALID_ARGUMENT names the file and
// a tensor that is missing or has other dimensions, UNIMPLEMENTED a tensor of another type.
class TensorLoader {
 public:
  // kMeasure: matrices and vectors are checked and not loaded, and what they are to be written to
  // stays as it is.
  enum class Purpose { kLoad, kMeasure };
  TensorLoader(const GgufFile& file, Backend& backend, Purpose purpose)
      : file_(file), backend_(backend), measures_(purpose == Purpose::kMeasure) {}

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }
  // Whether there is a matrix of so many rows by that name.
  bool HasRows(const std::string& name, int rows) const;

  // Takes a matrix [rows, columns].
  absl::Status Matrix(const std::string& name, int rows, int columns,
                      std::unique_ptr<Weight>& out) {
    return Matrices(name, columns, {{rows, &out}});
  }
  struct RowRange {
    int rows;
    std::unique_ptr<Weight>* out;
  };
  // Takes matrices of the same columns that lie in one tensor, one below the other.
  absl::Status Matrices(const std::string& name, int columns, absl::Span<const RowRange> ranges);
  // Takes `count` matrices [rows, columns] that lie in a tensor of three dimensions.
  absl::Status Stack(const std::string& name, int count, int rows, int columns,
                     std::vector<std::unique_ptr<Weight>>& out);

  // Takes a vector as floats.
  absl::Status Vector(const std::string& name, int size, WeightVector& out);
  absl::Status VectorIfPresent(const std::string& name, int size, WeightVector& out) {
    return Has(name) ? Vector(name, size, out) : absl::OkStatus();
  }
  // Takes `count` vectors that lie in one tensor.
  absl::Status VectorsIfPresent(const std::string& name, int count, int size, WeightVector& out);
  // Reads a vector into the host's memory, whatever the purpose.
  absl::StatusOr<std::vector<float>> HostVector(const std::string& name, int size);

  // A tensor that was not taken would change the model in a way that is not computed here.
  absl::Status CheckNoneLeft(const std::string& architecture) const;

  // The bytes that were taken, or that would be, in the backend's memory.
  uint64_t measured_bytes() const { return bytes_; }

 private:
  absl::StatusOr<const GgufTensor*> Find(const std::string& name,
                                         const std::vector<uint64_t>& dims);
  // Takes the ranges of a tensor's rows, which are all of them.
  absl::Status Split(const GgufTensor& tensor, absl::Span<const RowRange> ranges);
  absl::Status Upload(const GgufTensor& tensor, WeightVector& out);
  absl::Status CheckFloats(const GgufTensor& tensor) const;
  absl::Status InFile(const absl::Status& status) const;

  const GgufFile& file_;
  Backend& backend_;
  const bool measures_;
  uint64_t bytes_ = 0;
  absl::btree_set<std::string> taken_;
};

}  // namespace baton
