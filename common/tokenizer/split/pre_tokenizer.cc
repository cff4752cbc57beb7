#include "common/tokenizer/split/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/tokenizer/split/pre_tokenizer_schemes.h"
#include "common/tokenizer/split/split_expression.h"

namespace baton {
namespace {

constexpr size_t kMaxSplitTextBytes = size_t{1} << 30;
using Behavior = SplitRule::Behavior;
using PieceFunction = absl::FunctionRef<void(absl::string_view)>;

struct Step {
  SplitExpression expression;
  Behavior behavior;
  bool invert;
};

struct Part {
  absl::string_view text;
  bool is_match;
};

// The text from the begin of `first` to the end of `last`, which follows it.
absl::string_view Joined(absl::string_view first, absl::string_view last) {
  return absl::string_view(first.data(),
                           static_cast<size_t>(last.data() + last.size() - first.data()));
}

// Joins each match with the part beside it, unless that is a match too: with the part before it,
// or, if the parts are `reversed`, with the part that follows it in the text.
void JoinMatches(bool reversed, std::vector<Part>& parts) {
  if (reversed) std::reverse(parts.begin(), parts.end());
  std::vector<Part> joined;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !after_match && !joined.empty()) {
      absl::string_view& text = joined.back().text;
      text = reversed ? Joined(part.text, text) : Joined(text, part.text);
    } else {
      joined.push_back(part);
    }
    after_match = part.is_match;
  }
  if (reversed) std::reverse(joined.begin(), joined.end());
  parts = std::move(joined);
}

void JoinEqualNeighbours(std::vector<Part>& parts) {
  std::vector<Part> joined;
  for (const Part& part : parts) {
    if (!joined.empty() && joined.back().is_match == part.is_match) {
      joined.back().text = Joined(joined.back().text, part.text);
    } else {
      joined.push_back(part);
    }
  }
  parts = std::move(joined);
}

absl::Status SplitBy(const Step& step, absl::string_view text, SplitBudget& budget,
                     PieceFunction piece) {
  if (step.behavior == Behavior::kIsolated) {
    return step.expression.Split(text, budget, [&](absl::string_view part, bool) {
      if (!part.empty()) piece(part);
    });
  }
  std::vector<Part> parts;
  BATON_RETURN_IF_ERROR(
      step.expression.Split(text, budget, [&](absl::string_view part, bool is_match) {
        parts.push_back({.text = part, .is_match = is_match != step.invert});
      }));
  if (step.behavior == Behavior::kContiguous) {
    JoinEqualNeighbours(parts);
  } else if (step.behavior != Behavior::kRemoved) {
    JoinMatches(/*reversed=*/step.behavior == Behavior::kMergedWithNext, parts);
  }
  for (const Part& part : parts) {
    const bool removed = step.behavior == Behavior::kRemoved && part.is_match;
    if (!removed && !part.text.empty()) piece(part.text);
  }
  return absl::OkStatus();
}

}  // namespace

struct PreTokenizer::Rep {
  std::vector<Step> steps;
  bool takes_known_pieces_whole = false;
  bool adds_bos_by_default = false;

  // Splits `text`, UTF-8, by the steps from `step` on.
  absl::Status SplitFrom(size_t step, absl::string_view text, SplitBudget& budget,
                         PieceFunction piece) const {
    if (step == steps.size()) {
      piece(text);
      return absl::OkStatus();
    }
    absl::Status inner;
    BATON_RETURN_IF_ERROR(SplitBy(steps[step], text, budget, [&](absl::string_view part) {
      if (inner.ok()) inner = SplitFrom(step + 1, part, budget, piece);
    }));
    return inner;
  }
};

absl::StatusOr<PreTokenizer> PreTokenizer::Create(absl::string_view name,
                                                  const PreTokenizerOptions& options) {
  const absl::StatusOr<PreTokenizerScheme> scheme = FindPreTokenizerScheme(name);
  BATON_RETURN_IF_ERROR(scheme.status());
  std::vector<SplitRule> rules;
  for (const char* expression : scheme->expressions) {
    if (expression != nullptr) rules.push_back({.expression = expression});
  }
  BATON_ASSIGN_OR_RETURN(PreTokenizer made, Create(rules, options));
  made.rep_->takes_known_pieces_whole = scheme->takes_known_pieces_whole;
  made.rep_->adds_bos_by_default = scheme->adds_bos_by_default;
  return made;
}

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<SplitRule>& rules,
                                                  const PreTokenizerOptions& options) {
  if (rules.size() > kMaxRules) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the pre-tokenizer has ", rules.size(), " steps; at most ", kMaxRules, " are supported"));
  }
  auto rep = std::make_unique<Rep>();
  for (const SplitRule& rule : rules) {
    BATON_ASSIGN_OR_RETURN(SplitExpression expression,
                           SplitExpression::Create(rule.expression, options.use_jit));
    rep->steps.push_back(
        {.expression = std::move(expression), .behavior = rule.behavior, .invert = rule.invert});
  }
  return PreTokenizer(std::move(rep));
}

PreTokenizer::PreTokenizer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

bool PreTokenizer::takes_known_pieces_whole() const { return rep_->takes_known_pieces_whole; }
bool PreTokenizer::adds_bos_by_default() const { return rep_->adds_bos_by_default; }

absl::Status PreTokenizer::Split(absl::string_view text, PieceFunction piece) const {
  BATON_CHECK(text.size() < kMaxSplitTextBytes, "text of a gibibyte or more");
  SplitBudget budget(text.size());
  size_t begin = 0;
  bool well_formed = true;  // whether text[begin, end) is UTF-8
  for (size_t end = 0; end <= text.size();) {
    Utf8Unit unit{Utf8Unit::Kind::kInvalid, 1};
    if (end < text.size()) unit = NextUtf8Unit(text.substr(end));
    const bool is_character = unit.kind == Utf8Unit::Kind::kCharacter;
    if (end == text.size() || is_character != well_formed) {
      const absl::string_view run = text.substr(begin, end - begin);
      if (!well_formed) {
        piece(run);
      } else if (!run.empty()) {
        BATON_RETURN_IF_ERROR(rep_->SplitFrom(0, run, budget, piece));
      }
      begin = end;
      well_formed = is_character;
    }
    end += unit.size;
  }
  return absl::OkStatus();
}

}  // namespace baton
