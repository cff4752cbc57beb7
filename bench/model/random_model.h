// Model files with random weights in the shape of a known model, for measurements: they need the
// sizes of a model and not its answers.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/gguf/ggml_type.h"

namespace baton {

struct ModelShape {
  const char* name;
  const char* architecture;
  int layers;
  int width;
  int feed_forward_width;
  int heads;
  int kv_heads;
  int head_dim;
  int vocab_size;
  int context_length;  // tokens
  float rope_base;
  float norm_epsilon;
  bool tied;             // the embedding is also the output head
  int window = 0;        // keys that a query of a local layer sees; 0: there are no local layers
  int experts = 0;       // experts of each layer; 0: the feed-forward is a single one
  int experts_used = 0;  // experts that each row chooses
  int expert_width = 0;
};

// Finds a shape by its name. INVALID_ARGUMENT names --shape and lists the known names.
absl::StatusOr<ModelShape> FindModelShape(const std::string& name);
// Parses the name of a weight type, such as "q4_1" or "Q4_K". INVALID_ARGUMENT names --weights and
// lists the known types.
absl::StatusOr<GgmlType> ParseWeightsType(const std::string& name);

// Writes a whole model to `path`: matrices of `type`, vectors of F32, and a meaningless
// vocabulary of the right size. The same arguments give the same bytes. INVALID_ARGUMENT if the
// shape's rows are not whole blocks of the type; other errors say what the system said.
absl::Status WriteRandomModel(const ModelShape& shape, GgmlType type, const std::string& path);

// A model file as WriteRandomModel writes it, but in memory and without a name. The memory is free
// again once this object is gone and no process has the file open or mapped.
class RandomModelFile {
 public:
  // RESOURCE_EXHAUSTED if there is no memory for the file twice, which loading needs; else the
  // errors of WriteRandomModel.
  static absl::StatusOr<RandomModelFile> Create(const ModelShape& shape, GgmlType type);
  RandomModelFile(RandomModelFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RandomModelFile& operator=(RandomModelFile&&) = delete;
  ~RandomModelFile();

  // A path that opens the file in this process.
  std::string path() const;

 private:
  explicit RandomModelFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace baton
