#include "common/grammar/grammar_state.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "xgrammar/compiler.h"
#include "xgrammar/matcher.h"
#include "xgrammar/tokenizer_info.h"

namespace baton {
namespace {

absl::Status Failed(const std::exception& error) {
  return absl::InternalError(absl::StrCat("a grammar's state: ", error.what()));
}

// The only token of the mask; -1 if there are more or none.
int32_t OnlyToken(absl::Span<const uint32_t> mask) {
  int32_t only = -1;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (only >= 0 || !std::has_single_bit(mask[i])) return -1;
    only = static_cast<int32_t>(32 * i) + std::countr_zero(mask[i]);
  }
  return only;
}

}  // namespace

absl::StatusOr<GrammarState> GrammarState::Create(const CompiledGrammar& grammar) {
  try {
    return GrammarState(grammar);
  } catch (const std::exception& error) {
    return Failed(error);
  }
}
GrammarState::GrammarState(const CompiledGrammar& grammar)
    : vocabulary_(std::make_unique<xgrammar::TokenizerInfo>(grammar.grammar().GetTokenizerInfo())),
      matcher_(std::make_unique<xgrammar::GrammarMatcher>(grammar.grammar())),
      vocab_size_(vocabulary_->GetVocabSize()) {}
GrammarState::GrammarState(GrammarState&&) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState&&) noexcept = default;
GrammarState::GrammarState(const GrammarState& other)
    : vocabulary_(std::make_unique<xgrammar::TokenizerInfo>(*other.vocabulary_)),
      matcher_(std::make_unique<xgrammar::GrammarMatcher>(other.matcher_->Fork())),
      vocab_size_(other.vocab_size_) {}
GrammarState& GrammarState::operator=(const GrammarState& other) {
  if (this != &other) *this = GrammarState(other);
  return *this;
}
GrammarState::~GrammarState() = default;

// Whether it is a control token that does not end a generation: no grammar allows one.
bool GrammarState::IsSpecial(int32_t token) const {
  const auto contains = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return contains(vocabulary_->GetSpecialTokenIds()) && !contains(matcher_->GetStopTokenIds());
}

absl::Status GrammarState::Accept(int32_t token) {
  // XGrammar would write a line to stderr for each of these.
  const bool refused = token < 0 || token >= vocab_size_ || IsTerminated() || IsSpecial(token);
  try {
    if (refused || !matcher_->AcceptToken(token)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, " may not come next by the grammar"));
    }
  } catch (const std::exception& error) {
    return Failed(error);
  }
  return absl::OkStatus();
}

absl::Status GrammarState::Replay(absl::Span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (const absl::Status status = Accept(tokens[i]); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("token ", i, " of the answer: ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status GrammarState::FillMask(absl::Span<uint32_t> mask) {
  BATON_CHECK(mask.size() == MaskWords(vocab_size_), "the mask has other words");
  if (IsTerminated()) return absl::FailedPreconditionError("the answer has ended by its grammar");
  int64_t words = static_cast<int64_t>(mask.size());
  DLTensor tensor{};
  tensor.data = mask.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = &words;
  try {
    matcher_->FillNextTokenBitmask(&tensor);
  } catch (const std::exception& error) {
    return Failed(error);
  }
  for (const uint32_t word : mask) {
    if (word != 0) return absl::OkStatus();
  }
  return absl::FailedPreconditionError("no token may come next by the grammar");
}

void GrammarState::FillMasks(absl::Span<const int32_t> guesses, absl::Span<uint32_t> masks) {
  const size_t words = MaskWords(vocab_size_);
  BATON_CHECK(masks.size() == (1 + guesses.size()) * words, "a mask for each token");
  size_t filled = 0;
  int accepted = 0;
  while (FillMask(masks.subspan(filled * words, words)).ok()) {
    ++filled;
    if (filled > guesses.size() || !Accept(guesses[filled - 1]).ok()) break;
    ++accepted;
  }
  Rollback(accepted);
  std::fill(masks.begin() + static_cast<std::ptrdiff_t>(filled * words), masks.end(), 0);
}

size_t GrammarState::CountAllowed(absl::Span<const int32_t> guesses) {
  int accepted = 0;
  size_t allowed = 0;
  for (const int32_t guess : guesses) {
    if (!Accept(guess).ok()) break;
    ++accepted;
    if (IsTerminated()) break;
    ++allowed;
  }
  Rollback(accepted);
  return allowed;
}

void GrammarState::Rollback(int count) {
  if (count > 0) matcher_->Rollback(count);
}

std::vector<int32_t> GrammarState::ForcedTokens(size_t max_tokens) {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> mask(MaskWords(vocab_size_));
  // Where the text may end, the end is one of the ways.
  while (tokens.size() < max_tokens && !IsComplete() && FillMask(absl::MakeSpan(mask)).ok()) {
    const int32_t only = OnlyToken(mask);
    if (only < 0 || !Accept(only).ok()) break;
    tokens.push_back(only);
  }
  Rollback(static_cast<int>(tokens.size()));
  return tokens;
}

bool GrammarState::IsComplete() const { return matcher_->IsCompleted(); }
bool GrammarState::IsTerminated() const { return matcher_->IsTerminated(); }

}  // namespace baton
