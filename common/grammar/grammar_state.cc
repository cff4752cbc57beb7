#include "common/grammar/grammar_state.h"

#include <bit>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "xgrammar/compiler.h"
#include "xgrammar/matcher.h"

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
    return GrammarState(std::make_unique<xgrammar::GrammarMatcher>(grammar.grammar()),
                        grammar.grammar().GetTokenizerInfo().GetVocabSize());
  } catch (const std::exception& error) {
    return Failed(error);
  }
}
GrammarState::GrammarState(std::unique_ptr<xgrammar::GrammarMatcher> matcher, int32_t vocab_size)
    : matcher_(std::move(matcher)), vocab_size_(vocab_size) {}
GrammarState::GrammarState(GrammarState&&) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState&&) noexcept = default;
GrammarState::GrammarState(const GrammarState& other)
    : matcher_(std::make_unique<xgrammar::GrammarMatcher>(other.matcher_->Fork())),
      vocab_size_(other.vocab_size_) {}
GrammarState& GrammarState::operator=(const GrammarState& other) {
  if (this != &other) *this = GrammarState(other);
  return *this;
}
GrammarState::~GrammarState() = default;

absl::Status GrammarState::Accept(int32_t token) {
  // XGrammar would write a line to stderr for each of these.
  const bool refused = token < 0 || token >= vocab_size_ || IsTerminated();
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

absl::StatusOr<std::vector<int32_t>> GrammarState::ForcedTokens(size_t max_tokens) const {
  std::vector<int32_t> tokens;
  if (IsTerminated()) return tokens;
  try {
    GrammarState ahead = *this;
    std::vector<uint32_t> mask(MaskWords(vocab_size_));
    while (tokens.size() < max_tokens && !ahead.IsTerminated()) {
      BATON_RETURN_IF_ERROR(ahead.FillMask(absl::MakeSpan(mask)));
      const int32_t only = OnlyToken(mask);
      if (only < 0) break;
      BATON_RETURN_IF_ERROR(ahead.Accept(only));
      tokens.push_back(only);
    }
  } catch (const std::exception& error) {
    return Failed(error);
  }
  return tokens;
}

bool GrammarState::IsComplete() const { return matcher_->IsCompleted(); }
bool GrammarState::IsTerminated() const { return matcher_->IsTerminated(); }

}  // namespace baton
