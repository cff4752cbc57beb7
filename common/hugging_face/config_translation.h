// Translates config.json of a Hugging Face folder to the keys of GGUF.
#pragma once

#include "absl/status/statusor.h"

#include "common/hugging_face/json_text.h"
#include "common/hugging_face/model_type.h"
#include "common/hugging_face/translated_keys.h"

namespace baton {

struct TranslatedConfig {
  const ModelType* type;
  TranslatedKeys keys;
  bool tied = false;         // tie_word_embeddings
  bool multimodal = false;   // the language model is a part, text_config
  bool scaled_e4m3 = false;  // weights are E4M3 with scales of blocks of 128 x 128
};

// INVALID_ARGUMENT or UNIMPLEMENTED names the file, the field and what is supported.
absl::StatusOr<TranslatedConfig> TranslateConfig(const JsonFileFields& config);

}  // namespace baton
