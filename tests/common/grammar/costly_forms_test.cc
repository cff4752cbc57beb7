// Random grammars that read the same text in many ways: whatever their masks cost, each state ends
// within its budget, and says why.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/base/token_mask.h"
#include "tests/common/grammar/tiny_grammars.h"
#include "xgrammar/steps.h"

namespace baton {
namespace {

class RandomForms {
 public:
  explicit RandomForms(uint32_t seed) : random_(seed) {}

  // Rules of alternatives, some of which are empty or begin with a rule.
  std::string Next() {
    rules_ = 1 + Draw(3);
    std::string text = "root ::= r0 r0";
    for (int rule = 0; rule < rules_; ++rule) {
      absl::StrAppend(&text, "\nr", rule, " ::= ", Pick({"\"\"", "[a-z]", "[a-m ]"}));
      for (int i = 1 + Draw(3); i > 0; --i) absl::StrAppend(&text, " | ", Sequence());
    }
    return text;
  }
  // One of the tokens that the mask allows.
  int32_t TokenOf(const std::vector<uint32_t>& mask) {
    std::vector<int32_t> allowed;
    for (size_t i = 0; i < mask.size(); ++i) {
      for (uint32_t word = mask[i]; word != 0; word &= word - 1) {
        allowed.push_back(static_cast<int32_t>(32 * i) + std::countr_zero(word));
      }
    }
    return allowed[static_cast<size_t>(Draw(static_cast<int>(allowed.size())))];
  }

 private:
  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  std::string Pick(const std::vector<std::string>& from) {
    return from[static_cast<size_t>(Draw(static_cast<int>(from.size())))];
  }
  std::string Sequence() {
    std::string text;
    for (int i = 1 + Draw(3); i > 0; --i) {
      const std::string part =
          Draw(4) == 0 ? Pick({"[a-z]", "[^x]", "\"a\""}) : absl::StrCat("r", Draw(rules_));
      absl::StrAppend(&text, text.empty() ? "" : " ", part, Pick({"", "", "", "*", "?"}));
    }
    return text;
  }

  std::mt19937 random_;
  int rules_ = 0;
};

thread_local int checks_left = 0;
struct TooCostly : std::exception {};

// None if it does not compile, or not in a moment, which the compiler's own process sees to.
absl::StatusOr<GrammarState> Compiled(const std::string& text) {
  checks_left = 500;
  xgrammar::step_check = [] {
    if (--checks_left < 0) throw TooCostly();
  };
  absl::StatusOr<GrammarState> state = absl::InternalError("too costly");
  try {
    state = TryTinyGrammar(SpecOf(GrammarKind::kGrammar, text));
  } catch (const TooCostly&) {
  }
  xgrammar::step_check = nullptr;
  return state;
}

TEST(RandomForms, EndWithinTheirBudgetByName) {
  constexpr int kForms = 200;
  constexpr absl::Duration kCall = absl::Milliseconds(4);
  constexpr absl::Duration kAnswer = absl::Milliseconds(16);
  RandomForms forms(1);
  int costly = 0;
  for (int tried = 0; tried < kForms;) {
    const std::string text = forms.Next();
    absl::StatusOr<GrammarState> state = Compiled(text);
    if (!state.ok()) continue;
    ++tried;
    state->SetBudget({.call = kCall, .answer = kAnswer});
    std::vector<uint32_t> mask(MaskWords(state->vocab_size()));
    absl::Status status;
    for (int token = 0; token < 400 && status.ok(); ++token) {
      status = state->FillMask(absl::MakeSpan(mask));
      if (!status.ok()) break;
      for (const int32_t end : TinyEnds()) RemoveFromMask(mask.data(), end);
      if (std::vector<uint32_t>(mask.size(), 0) == mask) break;
      status = state->Accept(forms.TokenOf(mask));
    }
    if (status.ok() || absl::IsFailedPrecondition(status)) continue;
    ++costly;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status << "\n" << text;
    EXPECT_TRUE(absl::StartsWith(status.message(), "response_format: takes more than ")) << text;
    EXPECT_LE(state->spent(), kAnswer + kCall + absl::Milliseconds(100)) << text;
  }
  EXPECT_GE(costly, kForms / 4);
}

}  // namespace
}  // namespace baton
