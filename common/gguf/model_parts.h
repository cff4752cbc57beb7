// The parts of a GgufFile that is assembled from a model on disk in another format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/gguf/ggml_type.h"
#include "common/gguf/gguf_metadata.h"
#include "common/gguf/model_files.h"

namespace baton {

// Makes bytes that no file has as they are wanted.
struct TensorMaker {
  // Writes all bytes of the tensor to `out`, which has their number. Null: the file has them.
  std::function<void(absl::Span<uint8_t> out)> make = nullptr;
  // What it reads of the model's files. It is released afterwards.
  std::vector<absl::Span<const uint8_t>> sources = {};
};

struct ModelTensor {
  std::string name;
  GgmlType type;
  std::vector<uint64_t> dims;      // innermost first, 1 to 4, none of them 0
  absl::Span<const uint8_t> data;  // in one of the files; empty if there is a maker
  TensorMaker maker = {};
};

struct ModelParts {
  std::string path;  // path of the model, for errors
  ModelFiles files;
  GgufMetadata metadata;  // under the keys of GGUF
  std::vector<ModelTensor> tensors;
};

}  // namespace baton
