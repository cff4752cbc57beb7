// The parts of a tokenizer.json that say how text becomes pieces.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/character_encoder.h"
#include "common/tokenizer/split/pre_tokenizer.h"

namespace baton {

struct JsonPipeline {
  bool byte_level = false;  // bytes are written as characters (byte_alphabet.h)
  bool normal_form_c = false;
  bool replace_spaces = false;  // by U+2581
  CharacterEncoder::Prefix prefix = CharacterEncoder::Prefix::kNone;
  std::vector<SplitRule> rules;
  bool strips_first_space = false;  // decoding takes a space from the begin of a text
  std::optional<int64_t> bos_id;    // the token that is put in front of each text
  std::optional<int64_t> eos_id;    // the token that is put after it
};

// Reads "normalizer", "pre_tokenizer", "decoder" and "post_processor" of `json`, a whole
// tokenizer.json. UNIMPLEMENTED names a part or setting that is not supported, INVALID_ARGUMENT one
// that is wrong.
absl::StatusOr<JsonPipeline> ReadJsonPipeline(const nlohmann::json& json);

}  // namespace baton
