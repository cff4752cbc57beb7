#include "common/grammar/grammar_vocabulary.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "common/base/status_macros.h"
#include "common/grammar/string_list.h"
#include "common/tokenizer/vocabulary.h"
#include "xgrammar/tokenizer_info.h"

namespace baton {
namespace {

// The digest and the ids that end a generation come before the tokens.
constexpr size_t kStringsBefore = 2;

bool IsSpecialToken(absl::string_view text) {
  return text.size() > 1 && text.front() == kSpecialTokenByte;
}

// Checks that the literals of the special tokens are as short as every tokenizer's.
absl::Status CheckLiterals(const std::vector<std::string>& tokens) {
  size_t longest = 0, total = 0;
  for (const std::string& token : tokens) {
    if (!IsSpecialToken(token)) continue;
    longest = std::max(longest, token.size() - 1);
    total += token.size() - 1;
  }
  if (longest <= LiteralMatcher::kMaxLiteralBytes && total <= LiteralMatcher::kMaxTotalBytes) {
    return absl::OkStatus();
  }
  return absl::DataLossError("a grammar's vocabulary has special tokens that are too long");
}

}  // namespace

std::string SerializeVocabulary(const Tokenizer& tokenizer) {
  std::string bytes;
  AppendString(tokenizer.digest(), bytes);
  AppendString(absl::StrJoin(tokenizer.end_of_generation_ids(), ","), bytes);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const absl::string_view token = tokenizer.TokenBytes(id);
    if (tokenizer.IsSpecial(id) && !token.empty()) {
      AppendString(absl::StrCat(absl::string_view(&kSpecialTokenByte, 1), token), bytes);
    } else if (!token.empty() && token.front() == kSpecialTokenByte) {
      AppendString("", bytes);  // the byte itself, which no UTF-8 text has
    } else {
      AppendString(token, bytes);
    }
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<GrammarVocabulary>> GrammarVocabulary::Parse(
    absl::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(const std::vector<absl::string_view> strings, ReadStrings(bytes));
  if (strings.size() <= kStringsBefore ||
      strings.size() - kStringsBefore > Vocabulary::kMaxTokens) {
    return absl::DataLossError("a grammar's vocabulary has no tokens, or too many");
  }
  std::vector<std::string> tokens(strings.begin() + kStringsBefore, strings.end());
  BATON_RETURN_IF_ERROR(CheckLiterals(tokens));
  std::vector<int32_t> ends;
  for (const absl::string_view text : absl::StrSplit(strings[1], ',', absl::SkipEmpty())) {
    int32_t id = -1;
    if (!absl::SimpleAtoi(text, &id) || id < 0 || static_cast<size_t>(id) >= tokens.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the end token id \"", text, "\" of a grammar's vocabulary is not one of its tokens"));
    }
    ends.push_back(id);
  }
  try {
    auto info = std::make_unique<xgrammar::TokenizerInfo>(tokens, xgrammar::VocabType::RAW,
                                                          std::nullopt, std::move(ends));
    return std::unique_ptr<GrammarVocabulary>(
        new GrammarVocabulary(std::string(strings[0]), std::move(info)));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("a grammar's vocabulary: ", error.what()));
  }
}

GrammarVocabulary::GrammarVocabulary(std::string digest,
                                     std::unique_ptr<xgrammar::TokenizerInfo> info)
    : digest_(std::move(digest)),
      info_(std::move(info)),
      utf8_(std::make_shared<const Utf8Tokens>(info_->GetDecodedVocab())),
      size_(info_->GetVocabSize()) {
  ListSpecialTokens();
}

void GrammarVocabulary::ListSpecialTokens() {
  const std::vector<std::string>& texts = info_->GetDecodedVocab();
  const std::vector<int32_t>& stops = info_->GetStopTokenIds();
  const absl::flat_hash_set<int32_t> ends(stops.begin(), stops.end());
  for (int32_t id = 0; id < size_; ++id) {
    const std::string& text = texts[static_cast<size_t>(id)];
    if (IsSpecialToken(text) && !ends.contains(id)) special_.emplace_back(text.substr(1), id);
  }
  std::stable_sort(special_.begin(), special_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::vector<LiteralMatcher::Literal> literals;
  for (const auto& [text, id] : special_) {
    literals.push_back({.text = text, .id = id, .trusted_only = false});
  }
  special_literals_ = LiteralMatcher(std::move(literals));
}

GrammarVocabulary::~GrammarVocabulary() = default;

}  // namespace baton
