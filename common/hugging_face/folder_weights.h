// The weights in a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json names.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/gguf/model_files.h"
#include "common/hugging_face/safetensors.h"

namespace baton {

// A tensor and the file that has it.
struct FolderTensor {
  SafeTensor tensor;
  std::string file;  // without folders
};
using FolderTensors = absl::btree_map<std::string, FolderTensor>;  // by name

// Adds the folder's weights to `files` and reads their headers. Errors name the file and the
// remedy. Limits: 512 shards, 65,536 tensors, and those of ParseSafetensors.
// `will_read_all`: whether the tensors' bytes will be read.
absl::StatusOr<FolderTensors> OpenFolderWeights(const std::string& folder, bool will_read_all,
                                                ModelFiles& files);

// Adds those of the weights that are there to `files`, whose digest they belong to, and reads no
// header.
absl::Status AddFolderWeights(const std::string& folder, ModelFiles& files);

}  // namespace baton
