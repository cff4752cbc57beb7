// The parts of a tokenizer, from any kind of file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "common/tokenizer/literal_matcher.h"
#include "common/tokenizer/literal_rule.h"
#include "common/tokenizer/text_encoder.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {

struct TokenizerParts {
  std::unique_ptr<const Vocabulary> vocabulary;
  size_t listed_tokens = 0;                    // tokens that the file lists (vocabulary_size.h)
  std::unique_ptr<const TextEncoder> encoder;  // borrows `vocabulary`
  LiteralMatcher literals;                     // literals of the special and user-defined tokens
  absl::flat_hash_map<int32_t, LiteralRule> literal_rules;  // by token, if it has one
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  bool add_bos = false;
  bool add_eos = false;
  bool adds_space_prefix = false;  // the encoder puts a space in front of a text
  // A text has at most this many times the bytes of its tokens; 0: any number of them.
  size_t shrinks_text_by = 1;
  std::vector<int32_t> end_of_generation_ids;  // ascending
  std::string chat_template;                   // empty: none
  std::string tool_chat_template;              // for chats with tools; empty: the one above
};

}  // namespace baton
