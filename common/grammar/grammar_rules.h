// XGrammar's own form of a grammar, read: it shows its rules to its own sources alone, but writes them
// down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace xgrammar {
class Grammar;
}

namespace baton {

using GrammarData = absl::Span<const int32_t>;

// XGrammar 0.2.8's kinds of expressions, with what the data of each says.
enum class GrammarPart : int32_t {
  kByteString,          // bytes
  kCharacterClass,      // whether it is negated; the first and last code point of each range
  kCharacterClassStar,  // the same
  kEmptyText,           // nothing
  kRule,                // a rule
  kSequence,            // expressions
  kChoices,             // expressions
  kTagDispatch,         // a trigger's expression and its rule, repeated; two more
  kRepeat,              // a rule, the least and the most times; -1: no bound
  kToken,               // tokens
  kExcludeToken,        // tokens
  kTokenTagDispatch,    // how many: a token and its rule, so often; more
  kRegex,               // whether it is the text of a JSON string; the expression's bytes
  kSubstring,           // the length of a text and its bytes, repeated
};

struct GrammarExpression {
  GrammarPart kind;
  GrammarData data;
};

// The rules that an expression names itself.
std::vector<int32_t> RulesOf(const GrammarExpression& expression);
// The expressions that it has itself, in their order.
std::vector<int32_t> PartsOf(const GrammarExpression& expression);

// Immutable and thread-safe. Rules and expressions are known by their numbers, all of which are of
// this grammar.
class GrammarRules {
 public:
  // Throws what nlohmann::json does if XGrammar writes another form.
  explicit GrammarRules(const xgrammar::Grammar& grammar);

  size_t size() const { return bodies_.size(); }  // rules
  int32_t root() const { return root_; }
  const std::string& name(int32_t rule) const { return names_.at(static_cast<size_t>(rule)); }
  int32_t body(int32_t rule) const { return bodies_.at(static_cast<size_t>(rule)); }
  GrammarExpression At(int32_t expression) const;

  // Whether an answer can come to the root again within itself.
  bool RefersToItsRoot() const;

 private:
  std::vector<std::string> names_;
  std::vector<int32_t> bodies_;  // expressions
  std::vector<int32_t> data_;
  std::vector<size_t> begins_;  // in data_
  int32_t root_ = 0;
};

}  // namespace baton
