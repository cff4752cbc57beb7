// Rules for a token's literal in a text (the flags of "added_tokens" in tokenizer.json).
#pragma once

namespace baton {

struct LiteralRule {
  bool single_word = false;         // it counts only if no character of words is beside it
  bool takes_space_before = false;  // white space before it is part of it
  bool takes_space_after = false;
  friend bool operator==(const LiteralRule&, const LiteralRule&) = default;
};

}  // namespace baton
