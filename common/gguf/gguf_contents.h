// The structure of a GGUF file, from its header, metadata and tensor list. Everything is checked,
// and the values stay in place. Internal to common/gguf; everybody else uses gguf_file.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/gguf/gguf_file.h"
#include "common/gguf/gguf_value.h"

namespace baton {

inline constexpr uint64_t kMaxGgufTensors = 65536;  // most tensors in a model

// Views and spans point into the bytes that were parsed.
struct GgufContents {
  absl::btree_map<absl::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;                          // in file order
  absl::btree_map<absl::string_view, size_t> tensor_index;  // name -> position in `tensors`
  // Rows of the tensor kEmbeddingTensor if only the metadata was asked for and the file goes on to
  // that tensor's entry.
  std::optional<uint64_t> embedding_rows = {};
};

inline constexpr absl::string_view kEmbeddingTensor = "token_embd.weight";

// Parses the bytes of a file. Every error begins with `name`. It takes memory in proportion to the
// keys and tensors that are there, whose numbers are bounded, whatever the file's counts say.
absl::StatusOr<GgufContents> ParseGguf(absl::Span<const uint8_t> bytes, const std::string& name,
                                       GgufFile::Part part);

}  // namespace baton
