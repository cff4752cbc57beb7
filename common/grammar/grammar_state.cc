#include "common/grammar/grammar_state.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/tokenizer.h"
#include "xgrammar/compiler.h"
#include "xgrammar/matcher.h"
#include "xgrammar/steps.h"
#include "xgrammar/tokenizer_info.h"

namespace baton {
namespace {

absl::Status LibraryFailed(const std::exception& error) {
  return absl::InternalError(absl::StrCat("a grammar's state: ", error.what()));
}

// Leaves XGrammar's parser in the midst of a call.
struct OverBudget : std::exception {
  OverBudget(absl::Duration most, const char* of_what) : budget(most), use(of_what) {}

  absl::Duration budget;
  const char* use;  // what the budget is for
};

// Leaves it for a caller who cannot wait.
struct Stall : std::exception {};

// Bytes of a forced text that are examined for each requested token.
constexpr size_t kBytesOfToken = 8;

// Calls `use` with the tokens of the mask, ascending, until it returns false.
template <typename Use>
void ForEachToken(absl::Span<const uint32_t> mask, Use use) {
  for (size_t i = 0; i < mask.size(); ++i) {
    for (uint32_t word = mask[i]; word != 0; word &= word - 1) {
      if (!use(static_cast<int32_t>(32 * i) + std::countr_zero(word))) return;
    }
  }
}

}  // namespace

absl::StatusOr<GrammarState> GrammarState::Create(const CompiledGrammar& grammar) {
  try {
    return GrammarState(grammar);
  } catch (const std::exception& error) {
    return LibraryFailed(error);
  }
}

// A call of a state's, which may call others of its own: they all count as the first one. While it
// lasts, the parser's steps of this thread count too.
class GrammarState::MeteredCall {
 public:
  explicit MeteredCall(GrammarState& state) : state_(state), is_outermost_(running == nullptr) {
    if (!is_outermost_) return;
    begin_ = ThreadCpuTime();
    running = this;
    xgrammar::step_check = [] { running->Check(); };
  }
  MeteredCall(const MeteredCall&) = delete;
  MeteredCall& operator=(const MeteredCall&) = delete;
  ~MeteredCall() {
    if (!is_outermost_) return;
    xgrammar::step_check = nullptr;
    running = nullptr;
    state_.spent_ += ThreadCpuTime() - begin_;
  }

 private:
  void Check() const {
    const absl::Duration took = ThreadCpuTime() - begin_;
    const GrammarBudget& budget = state_.budget_;
    if (took > budget.call) throw OverBudget(budget.call, "a token");
    if (state_.spent_ + took > budget.answer) throw OverBudget(budget.answer, "an answer");
    if (took > budget.at_once) throw Stall();
    if (state_.stop_ != nullptr && state_.stop_->load(std::memory_order_relaxed)) throw Stall();
  }

  inline static thread_local const MeteredCall* running = nullptr;

  GrammarState& state_;
  const bool is_outermost_;
  absl::Duration begin_;
};

GrammarState::GrammarState(const CompiledGrammar& grammar)
    : grammar_(std::make_unique<xgrammar::CompiledGrammar>(grammar.grammar())),
      vocabulary_(std::make_unique<xgrammar::TokenizerInfo>(grammar.grammar().GetTokenizerInfo())),
      matcher_(std::make_unique<xgrammar::GrammarMatcher>(grammar.grammar())),
      utf8_(grammar.utf8()),
      vocab_size_(vocabulary_->GetVocabSize()) {}
GrammarState::GrammarState(GrammarState&&) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState&&) noexcept = default;
// tests/planted_bugs: grammar_copies_share_a_state
GrammarState::GrammarState(const GrammarState& other)
    : grammar_(std::make_unique<xgrammar::CompiledGrammar>(*other.grammar_)),
      vocabulary_(std::make_unique<xgrammar::TokenizerInfo>(*other.vocabulary_)),
      matcher_(other.failure_.ok()
                   ? std::make_unique<xgrammar::GrammarMatcher>(other.matcher_->Fork())
                   : nullptr),
      utf8_(other.utf8_),
      open_bytes_(other.open_bytes_),
      vocab_size_(other.vocab_size_),
      tokenizer_(other.tokenizer_),
      budget_(other.budget_),
      spent_(other.spent_),
      failure_(other.failure_) {}
GrammarState& GrammarState::operator=(const GrammarState& other) {
  if (this != &other) *this = GrammarState(other);
  return *this;
}
GrammarState::~GrammarState() = default;

absl::Status GrammarState::Failed(const std::exception& error) {
  if (dynamic_cast<const Stall*>(&error) != nullptr) {
    return failure_ = absl::UnavailableError(
               "response_format: the tokens that it allows next are not computed yet");
  }
  const auto* const over = dynamic_cast<const OverBudget*>(&error);
  failure_ = over == nullptr
                 ? LibraryFailed(error)
                 : absl::InvalidArgumentError(absl::StrCat(
                       "response_format: takes more than ", absl::FormatDuration(over->budget),
                       " of CPU time for ", over->use,
                       "; simplify it so that fewer of its alternatives match the same text"));
  return failure_;
}

// Whether it is a token without a text that does not end a generation: no grammar allows one.
bool GrammarState::IsSpecial(int32_t token) const {
  const auto contains = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return contains(vocabulary_->GetSpecialTokenIds()) && !contains(matcher_->GetStopTokenIds());
}

const std::string& GrammarState::TextOf(int32_t token) const {
  return vocabulary_->GetDecodedVocab()[static_cast<size_t>(token)];
}

// Whether the token leaves no byte open, or is followed by something that the grammar allows.
bool GrammarState::LeadsOn(int32_t token) {
  const std::string& text = TextOf(token);
  const char open = Utf8Tokens::OpenByte(text);
  if (open == 0) return true;
  for (const std::string& next : utf8_->Next(open)) {
    if (!matcher_->AcceptString(text + next)) continue;
    matcher_->Rollback(1);
    return true;
  }
  return false;
}

void GrammarState::RemoveIllFormed(absl::Span<uint32_t> mask) {
  utf8_->RemoveForbidden(OpenByte(), mask);
  for (const int32_t token : utf8_->ending_open()) {
    if (MaskAllows(mask.data(), token) && !LeadsOn(token)) RemoveFromMask(mask.data(), token);
  }
}

absl::Status GrammarState::Accept(int32_t token) {
  if (!failure_.ok()) return failure_;
  const MeteredCall call(*this);
  // XGrammar would write a line to stderr for each of the first four.
  const bool refused = token < 0 || token >= vocab_size_ || IsTerminated() || IsSpecial(token) ||
                       utf8_->IsForbidden(OpenByte(), token);
  try {
    if (refused || !LeadsOn(token) || !matcher_->AcceptToken(token)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, " is not allowed by the grammar at this place"));
    }
    open_bytes_.push_back(Utf8Tokens::OpenByte(TextOf(token)));
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

absl::Status GrammarState::ReplayAtOnce(absl::Span<const int32_t> tokens) {
  const MeteredCall call(*this);
  return Replay(tokens);
}

absl::Status GrammarState::Restore(absl::Span<const int32_t> tokens) {
  try {
    matcher_ = std::make_unique<xgrammar::GrammarMatcher>(*grammar_);
  } catch (const std::exception& error) {
    return Failed(error);
  }
  open_bytes_.clear();
  failure_ = absl::OkStatus();
  // tests/planted_bugs: mask_restored_behind_the_prompt
  return Replay(tokens);
}

absl::Status GrammarState::FillMask(absl::Span<uint32_t> mask) {
  BATON_CHECK(mask.size() == MaskWords(vocab_size_), "the mask has other words");
  if (!failure_.ok()) return failure_;
  const MeteredCall call(*this);
  if (IsTerminated()) {
    return absl::FailedPreconditionError(
        "the answer is complete, and its grammar allows no further token");
  }
  int64_t words = static_cast<int64_t>(mask.size());
  DLTensor tensor{};
  tensor.data = mask.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = &words;
  try {
    matcher_->FillNextTokenBitmask(&tensor);
    RemoveIllFormed(mask);
  } catch (const std::exception& error) {
    return Failed(error);
  }
  for (const uint32_t word : mask) {
    if (word != 0) return absl::OkStatus();
  }
  return absl::FailedPreconditionError("the grammar allows no token at this place");
}

void GrammarState::FillMasks(absl::Span<const int32_t> guesses, absl::Span<uint32_t> masks) {
  const size_t words = MaskWords(vocab_size_);
  BATON_CHECK(masks.size() == (1 + guesses.size()) * words, "a mask for each token");
  const MeteredCall call(*this);
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
  const MeteredCall call(*this);
  int accepted = 0;
  size_t allowed = 0;
  for (const int32_t guess : guesses) {
    if (!Accept(guess).ok()) break;
    ++accepted;
    if (IsTerminated()) break;
    ++allowed;
  }
  // tests/planted_bugs: grammar_guess_kept
  Rollback(accepted);
  return allowed;
}

void GrammarState::Rollback(int count) {
  if (count <= 0 || !failure_.ok()) return;
  matcher_->Rollback(count);
  open_bytes_.erase(open_bytes_.end() - count, open_bytes_.end());
}

std::vector<int32_t> GrammarState::ForcedTokens(size_t max_tokens) {
  if (tokenizer_ == nullptr || !failure_.ok()) return {};
  const MeteredCall call(*this);
  const std::string text = ForcedText(kBytesOfToken * max_tokens);
  absl::StatusOr<std::vector<int32_t>> tokens =
      tokenizer_->Encode(text, {.add_special_tokens = false, .continues = true});
  if (!tokens.ok()) return {};
  if (tokens->size() > max_tokens) {
    tokens->resize(max_tokens);
  } else {
    while (!tokens->empty() && MayBeLonger(*tokens)) tokens->pop_back();
  }
  return *std::move(tokens);
}

// The text, of at least `max_bytes` if there is as much, that alone may follow.
std::string GrammarState::ForcedText(size_t max_bytes) {
  std::string text;
  int accepted = 0;
  std::vector<uint32_t> mask(MaskWords(vocab_size_));
  // Where the text may end, the end is one of the ways.
  while (text.size() < max_bytes && !IsComplete() && FillMask(absl::MakeSpan(mask)).ok()) {
    const int32_t token = ForcedToken(mask);
    if (token < 0) break;
    // No text stands for a special token.
    if (absl::StartsWith(vocabulary_->GetDecodedVocab()[static_cast<size_t>(token)],
                         absl::string_view(&kSpecialTokenByte, 1))) {
      break;
    }
    if (!Accept(token).ok()) break;
    ++accepted;
    text += vocabulary_->GetDecodedVocab()[static_cast<size_t>(token)];
  }
  Rollback(accepted);
  return text;
}

// A token whose text has to come, since each token of the mask begins with it. Where each is a
// beginning of the longest one, that one is taken instead, which spares masks: its text has to come
// too, unless another way on has no token of its own. -1: none.
int32_t GrammarState::ForcedToken(absl::Span<const uint32_t> mask) const {
  const std::vector<std::string>& texts = vocabulary_->GetDecodedVocab();
  const auto text = [&](int32_t token) -> absl::string_view {
    return texts[static_cast<size_t>(token)];
  };
  int32_t shortest = -1;
  int32_t longest = -1;
  bool one_way = true;
  ForEachToken(mask, [&](int32_t token) {
    if (shortest < 0) {
      shortest = longest = token;
      return true;
    }
    if (absl::StartsWith(text(shortest), text(token))) {
      shortest = token;
    } else if (!absl::StartsWith(text(token), text(shortest))) {
      shortest = -1;
      one_way = false;
      return false;
    }
    if (absl::StartsWith(text(token), text(longest))) {
      longest = token;
    } else if (!absl::StartsWith(text(longest), text(token))) {
      one_way = false;
    }
    return true;
  });
  // tests/planted_bugs: forced_text_not_guessed
  return one_way ? longest : shortest;
}

// Whether a token that begins with the last one's text may come in its place.
bool GrammarState::MayBeLonger(absl::Span<const int32_t> tokens) {
  const std::vector<std::string>& texts = vocabulary_->GetDecodedVocab();
  const std::string& last = texts[static_cast<size_t>(tokens.back())];
  int accepted = 0;
  for (const int32_t token : tokens.first(tokens.size() - 1)) {
    if (!Accept(token).ok()) break;
    ++accepted;
  }
  bool may = false;
  std::vector<uint32_t> mask(MaskWords(vocab_size_));
  if (FillMask(absl::MakeSpan(mask)).ok()) {
    ForEachToken(mask, [&](int32_t token) {
      const std::string& other = texts[static_cast<size_t>(token)];
      may = other.size() > last.size() && absl::StartsWith(other, last);
      return !may;
    });
  }
  Rollback(accepted);
  return may;
}

bool GrammarState::IsComplete() const { return failure_.ok() && matcher_->IsCompleted(); }
bool GrammarState::IsTerminated() const { return failure_.ok() && matcher_->IsTerminated(); }

}  // namespace baton
