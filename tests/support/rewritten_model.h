// GGUF models of the test data with other tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/gguf/gguf_file.h"

namespace baton {

struct WrittenTensor {
  const std::string name;
  const std::vector<uint64_t> dims;  // as in GgufTensor
  GgmlType type;
  std::string bytes;  // as many as the type and dims ask for
};

// Returns the model at `path`, in memory, after `edit` has been given each of its tensors to change.
// All keys stay. Ends the process if the file cannot be read, or is not sound afterwards.
GgufFile RewrittenModel(const std::string& path, const std::function<void(WrittenTensor&)>& edit);

// Returns the model with the same numbers as `type`, which is F32, F16 or BF16: every tensor of
// floats, vectors and biases too, that has only numbers which the type can hold. The others, and
// what is quantised, stay as they are.
GgufFile Retyped(const std::string& path, GgmlType type);

}  // namespace baton
