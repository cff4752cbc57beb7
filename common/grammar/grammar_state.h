// Where an answer stands in its grammar: which tokens may come next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/base/token_mask.h"
#include "common/grammar/compiled_grammar.h"
#include "common/grammar/utf8_tokens.h"

namespace xgrammar {
class CompiledGrammar;
class GrammarMatcher;
class TokenizerInfo;
}  // namespace xgrammar

namespace baton {

class Tokenizer;

// What a form may cost, whatever its author wrote. It is CPU time of the calling thread, so that no
// answer ends because the machine is busy.
struct GrammarBudget {
  absl::Duration call = absl::Seconds(1);  // one call of a state
  absl::Duration answer =
      absl::Seconds(10);  // all calls of a state and of those it was copied from
  // One call of a state whose caller cannot wait for more.
  absl::Duration at_once = absl::InfiniteDuration();
};

// A function of the grammar and the accepted tokens alone. Not thread-safe. It keeps the parts of
// the grammar that it needs, and grows by about a hundred bytes for each byte of the answer's text.
//
// A state whose form costs more than its budget allows, or in which XGrammar fails, has failed: from
// then on it allows nothing, and FillMask and Accept say why. INVALID_ARGUMENT names the budget;
// INTERNAL is XGrammar's failure. Only a state that has stalled, since a call took longer than
// GrammarBudget::at_once, can be restored: UNAVAILABLE until then.
class GrammarState {
 public:
  // The state before the first token. INTERNAL if XGrammar cannot make one.
  static absl::StatusOr<GrammarState> Create(const CompiledGrammar& grammar);
  GrammarState(GrammarState&&) noexcept;
  GrammarState& operator=(GrammarState&&) noexcept;
  // A state that goes on alone from where `other` stands.
  GrammarState(const GrammarState& other);
  GrammarState& operator=(const GrammarState& other);
  ~GrammarState();

  // INVALID_ARGUMENT names the token if it may not come next; the state is as before.
  absl::Status Accept(int32_t token);
  // Accepts all tokens of a log, each in a call of its own; an error names the index of the first that
  // may not stand there.
  absl::Status Replay(absl::Span<const int32_t> tokens);
  // The same in one call.
  absl::Status ReplayAtOnce(absl::Span<const int32_t> tokens);
  // Makes the state anew behind `tokens`, with what it has spent. Errors are those of Replay.
  absl::Status Restore(absl::Span<const int32_t> tokens);

  // Fills `mask`, [MaskWords(vocab_size)]. The tokens that it allows make no text but UTF-8, of
  // whose last character bytes may yet be missing. Tokens that end a generation are in it where the
  // text may end. FAILED_PRECONDITION if nothing may follow: after such a token, or in a grammar
  // that has no way on. REQUIRES: `mask` has as many words.
  absl::Status FillMask(absl::Span<uint32_t> mask);
  // One mask for the next token, then one for the token behind each of `guesses`: [1 + guesses,
  // MaskWords(vocab_size)]. A mask allows nothing if FillMask would fail, or behind a guess that
  // may not come. The state stays as it is.
  void FillMasks(absl::Span<const int32_t> guesses, absl::Span<uint32_t> masks);
  // How many of `guesses` may come one after the other, up to one behind which nothing may follow.
  // The state stays as it is.
  size_t CountAllowed(absl::Span<const int32_t> guesses);
  // At most `max_tokens` tokens that are likely to come: the tokenizer's for the text that alone may
  // follow, until the text may end or go on in two ways. Those at its end that may be part of a
  // longer token are left out. Other tokens may spell the same text. None before EncodeBy. The
  // state stays as it is.
  std::vector<int32_t> ForcedTokens(size_t max_tokens);
  // Borrows the tokenizer of the vocabulary for this state and its copies, which it must outlive.
  void EncodeBy(const Tokenizer& tokenizer) { tokenizer_ = &tokenizer; }
  // From now on; other states keep theirs.
  void SetBudget(const GrammarBudget& budget) { budget_ = budget; }
  const GrammarBudget& budget() const { return budget_; }
  // While `*stop` is true, a call fails. Borrows it until the next SetStop; null: it is never
  // stopped.
  void SetStop(const std::atomic<bool>* stop) { stop_ = stop; }
  // Takes back the last `count` tokens. REQUIRES: at least `count` were accepted.
  void Rollback(int count);

  int32_t vocab_size() const { return vocab_size_; }      // tokens
  size_t accepted() const { return open_bytes_.size(); }  // tokens
  absl::Duration spent() const { return spent_; }         // time spent of GrammarBudget::answer
  bool failed() const { return !failure_.ok(); }          // stalled ones too
  bool stalled() const { return absl::IsUnavailable(failure_); }

  // Whether the text may end here.
  bool IsComplete() const;
  // Whether a token that ends a generation was accepted.
  bool IsTerminated() const;

 private:
  explicit GrammarState(const CompiledGrammar& grammar);
  class MeteredCall;
  absl::Status Failed(const std::exception& error);
  bool IsSpecial(int32_t token) const;
  const std::string& TextOf(int32_t token) const;
  char OpenByte() const { return open_bytes_.empty() ? '\0' : open_bytes_.back(); }
  bool LeadsOn(int32_t token);
  void RemoveIllFormed(absl::Span<uint32_t> mask);
  std::string ForcedText(size_t max_bytes);
  int32_t ForcedToken(absl::Span<const uint32_t> mask) const;
  bool MayBeLonger(absl::Span<const int32_t> tokens);

  std::unique_ptr<xgrammar::CompiledGrammar> grammar_;
  std::unique_ptr<xgrammar::TokenizerInfo> vocabulary_;
  std::unique_ptr<xgrammar::GrammarMatcher> matcher_;
  std::shared_ptr<const Utf8Tokens> utf8_;
  std::vector<char> open_bytes_;  // Utf8Tokens::OpenByte of each accepted token
  int32_t vocab_size_;
  const Tokenizer* tokenizer_ = nullptr;  // null: none was given
  GrammarBudget budget_;
  const std::atomic<bool>* stop_ = nullptr;
  absl::Duration spent_;
  absl::Status failure_;
};

}  // namespace baton
