// Model files with random weights in the shape of a known model: for measurements, which need the
// sizes and not the answers.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/gguf/ggml_type.h"

namespace baton {

struct ModelShape {
  const char* name;
  const char* architecture;  // "llama" or "qwen2"
  int layers;
  int width;
  int feed_forward_width;
  int heads;
  int kv_heads;
  int head_dim;
  int vocab_size;
  int context_length;
  float rope_base;
  float norm_epsilon;
  bool tied;  // the embedding is the head
};

// INVALID_ARGUMENT names --shape and what there is.
absl::StatusOr<ModelShape> FindModelShape(const std::string& name);
// "q4_1", "Q4_K". INVALID_ARGUMENT names --weights and what there is.
absl::StatusOr<GgmlType> ParseWeightsType(const std::string& name);

// Writes a whole model: every matrix of `type`, the vectors in F32, and a vocabulary of the right
// size that means nothing. The same arguments give the same bytes. INVALID_ARGUMENT where the
// shape's rows are no whole blocks of the type; else what the system said.
absl::Status WriteRandomModel(const ModelShape& shape, GgmlType type, const std::string& path);

// Such a file in memory, without a name. Gone with the object; what has it open keeps it.
class RandomModelFile {
 public:
  static absl::StatusOr<RandomModelFile> Create(const ModelShape& shape, GgmlType type);
  RandomModelFile(RandomModelFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RandomModelFile& operator=(RandomModelFile&&) = delete;
  ~RandomModelFile();

  std::string path() const;

 private:
  explicit RandomModelFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace baton
