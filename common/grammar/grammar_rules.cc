#include "common/grammar/grammar_rules.h"

#include <algorithm>

#include "nlohmann/json.hpp"

#include "xgrammar/grammar.h"

namespace baton {

std::vector<int32_t> RulesOf(const GrammarExpression& expression) {
  const GrammarData data = expression.data;
  std::vector<int32_t> rules;
  if (expression.kind == GrammarPart::kRule || expression.kind == GrammarPart::kRepeat)
    rules = {data[0]};
  if (expression.kind == GrammarPart::kTagDispatch) {
    for (size_t i = 1; i + 2 < data.size(); i += 2) rules.push_back(data[i]);
  }
  if (expression.kind == GrammarPart::kTokenTagDispatch) {
    for (size_t i = 0; i < static_cast<size_t>(data[0]); ++i) rules.push_back(data[2 + 2 * i]);
  }
  return rules;
}

std::vector<int32_t> PartsOf(const GrammarExpression& expression) {
  const GrammarData data = expression.data;
  if (expression.kind == GrammarPart::kSequence || expression.kind == GrammarPart::kChoices) {
    return {data.begin(), data.end()};
  }
  std::vector<int32_t> parts;
  if (expression.kind == GrammarPart::kTagDispatch) {
    for (size_t i = 0; i + 2 < data.size(); i += 2) parts.push_back(data[i]);
  }
  return parts;
}

GrammarRules::GrammarRules(const xgrammar::Grammar& grammar) {
  const nlohmann::json json = nlohmann::json::parse(grammar.SerializeJSON());
  for (const nlohmann::json& rule : json.at("rules")) {
    names_.push_back(rule.at(0).get<std::string>());
    bodies_.push_back(rule.at(1).get<int32_t>());
  }
  data_ = json.at("grammar_expr_data").get<std::vector<int32_t>>();
  begins_ = json.at("grammar_expr_indptr").get<std::vector<size_t>>();
  root_ = json.at("root_rule_id").get<int32_t>();
}

// The length of its data stands behind an expression's kind.
GrammarExpression GrammarRules::At(int32_t expression) const {
  const size_t begin = begins_.at(static_cast<size_t>(expression));
  return {.kind = static_cast<GrammarPart>(data_.at(begin)),
          .data = GrammarData(data_).subspan(begin + 2, static_cast<size_t>(data_.at(begin + 1)))};
}

bool GrammarRules::RefersToItsRoot() const {
  for (size_t i = 0; i < begins_.size(); ++i) {
    const std::vector<int32_t> rules = RulesOf(At(static_cast<int32_t>(i)));
    if (std::find(rules.begin(), rules.end(), root_) != rules.end()) return true;
  }
  return false;
}

}  // namespace baton
