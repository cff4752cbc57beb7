// The model types of Hugging Face that are read, and what GGUF calls what they have.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/hugging_face/translated_keys.h"

namespace baton {

// What becomes of a tensor.
enum class TensorRule {
  kAsItIs,
  kQueryRows,  // put into the order of pairs where the architecture rotates pairs
  kKeyRows,    // likewise
  kNorm,       // plus one where the architecture's norms are stored so
  kExpert,     // becomes a part of a tensor of all experts
  kGateAndUp,  // [..., gate and then up, width] becomes two tensors: `ours`, and its up
  // Rows [experts, rows, width], or values [experts, rows], of which every second one is up's.
  kGateUpInTurns,
  // Blocks of MXFP4 [experts, rows, width / 32, 16] and, as NAME_scales beside NAME_blocks, their
  // exponents [experts, rows, width / 32]. With `up`, rows are as in kGateUpInTurns.
  kMxfp4,
  kDropped,  // is computed, or no part of the language model
};

// '#' stands for a number. The first one is the layer's; an expert's follows it.
struct TensorName {
  const char* theirs;
  const char* ours;
  TensorRule rule;
  const char* up = nullptr;  // set for kGateAndUp and rules of kinds in turns
};

struct ModelType {
  const char* model_type;      // as config.json has it
  const char* name;            // GGUF's general.architecture
  bool rotates_pairs = false;  // GGUF has rotated rows as neighbours
  bool norms_plus_one = false;
  const char* activation = "silu";
  // Reads the fields that not every architecture has. Null: there are none.
  absl::Status (*read)(const JsonFileFields& config, TranslatedKeys& keys) = nullptr;
  // Names that differ from those that most architectures have (CommonNames), or come on top.
  absl::Span<const TensorName> names = {};
  // The quant_method whose weights are those of TensorRule::kMxfp4. Null: there is none.
  const char* mxfp4_method = nullptr;
  RopeRules rope = {};
  bool tied = false;         // tie_word_embeddings where config.json does not say
  bool rounded_yarn = true;  // the ends of YaRN's ramp are whole numbers: `truncate`
  // A JSON object of fields with their values where config.json leaves them out, which transformers
  // has as defaults. Null: there are none.
  const char* defaults = nullptr;
};

// Null if the model type is not read.
const ModelType* FindModelType(const std::string& model_type);
// All model types, for errors.
std::string ModelTypes();
// The names of most architectures.
absl::Span<const TensorName> CommonNames();

}  // namespace baton
