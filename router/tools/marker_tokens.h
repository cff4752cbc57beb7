// Distinguishes markers that are special tokens from ordinary text that is spelled like them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "router/tools/tool_form.h"

namespace baton {

// The markers of a form that are special tokens of the model's vocabulary. A marker's first byte
// stands nowhere else in it, so markers never overlap. Immutable and thread-safe.
struct MarkerTokens {
  std::vector<std::string> markers;
  TokenTexts texts;
};

// Guards what a parser reads: a marker that ordinary tokens spell gets a character inside that
// keeps parsers from finding it. Not thread-safe. Takes time linear in tokens and text.
class MarkerGuard {
 public:
  explicit MarkerGuard(std::shared_ptr<const MarkerTokens> tokens) : tokens_(std::move(tokens)) {}

  // The tokens of the text to come. Without any, all markers are taken for tokens.
  void AddTokens(absl::Span<const uint32_t> ids);
  // Returns the text, guarded. Holds back what may become a marker, and blanks before it.
  std::string Add(absl::string_view text);
  std::string Finish() { return std::exchange(held_, {}); }

 private:
  const std::shared_ptr<const MarkerTokens> tokens_;
  // Whether each marker in the coming text is a special token, in their order.
  std::deque<bool> are_tokens_;
  std::string spelled_;  // text of ordinary tokens that may become a marker
  std::string held_;
};

// A parser of guarded text, whose parts have the text as the model wrote it. Not thread-safe.
class TokenAwareParser final : public AnswerParser {
 public:
  TokenAwareParser(const std::shared_ptr<const MarkerTokens>& tokens,
                   std::unique_ptr<AnswerParser> parser);

  void AddTokens(absl::Span<const uint32_t> ids) override { guard_.AddTokens(ids); }
  std::vector<AnswerPart> Add(absl::string_view text) override;
  std::vector<AnswerPart> Finish() override;

 private:
  std::vector<AnswerPart> Unguarded(std::vector<AnswerPart> parts) const;

  MarkerGuard guard_;
  const std::unique_ptr<AnswerParser> parser_;
  std::vector<std::pair<std::string, std::string>> plain_;  // guarded marker, plain marker
};

}  // namespace baton
