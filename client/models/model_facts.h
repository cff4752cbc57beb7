// What `baton models` says of one model: what it is, what it takes, and whether it is served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/backend/backend.h"
#include "common/gguf/ggml_type.h"
#include "common/gguf/quantisation.h"
#include "common/kv/layout.h"

namespace baton {

// The flags of `baton serve` that the answer depends on.
struct ServingOptions {
  Quantisation quantisation = Quantisation::kNone;
  KvType kv_dtype = KvType::kF16;
  int max_model_len = 0;  // tokens of prompt and output; 0: the model's context
};

// The bytes of the weights that have a type, as they are in the files or quantised.
struct WeightTypeBytes {
  GgmlType type;
  uint64_t bytes;
};

struct KvCost {
  KvType type;
  uint64_t bytes_per_token;  // K and V of a token in all layers
  // The blocks of a sequence of `max_model_len` tokens. Of layers with windows it keeps only what is
  // still read.
  uint64_t bytes;
};

// What could not be found out is empty or 0. Texts are as they are in the file.
struct ModelFacts {
  std::string path;
  std::string name;          // general.name
  std::string architecture;  // general.architecture, whether it is served or not
  uint64_t parameters = 0;
  std::vector<WeightTypeBytes> weight_types;  // most bytes first
  uint64_t file_bytes = 0;                    // sizes of all files that are read
  uint64_t weight_bytes = 0;                  // in memory, as a worker holds them
  int context_length = 0;                     // tokens
  int max_model_len = 0;                      // tokens that `kv` is for
  std::vector<KvCost> kv;                     // the wanted type first, then those that are larger
  std::string tokenizer;                      // such as "gpt2 (smollm)" or "tokenizer.json"
  bool chat_template = false;
  absl::Status served;  // the error that `baton serve` ends with, but for want of memory
};

// Finds out all that can be without reading the weights. `backend`: what would serve it.
ModelFacts FindOutAbout(const std::string& path, const ServingOptions& options, Backend& backend);

}  // namespace baton
