#include "router/openai/logprobs_json.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/utf8.h"
#include "router/openai/answer_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

Json Bytes(absl::string_view bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

// Chat's form of a token or one of its rivals.
Json TokenJson(absl::string_view token, float logprob) {
  return {{"token", TokenText(token)}, {"logprob", JsonFloat(logprob)}, {"bytes", Bytes(token)}};
}

struct Characters {
  std::string text;
  size_t count = 0;
};

// The characters that `bytes` complete; what they begin is left in `pending`.
Characters Completed(absl::string_view bytes, std::string& pending) {
  const std::string all = absl::StrCat(pending, bytes);
  absl::string_view rest = all;
  Characters result;
  while (!rest.empty()) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    if (unit.kind == Utf8Unit::Kind::kIncomplete) break;
    const bool good = unit.kind == Utf8Unit::Kind::kCharacter;
    absl::StrAppend(&result.text, good ? rest.substr(0, unit.size) : kReplacement);
    ++result.count;
    rest.remove_prefix(unit.size);
  }
  pending = std::string(rest);
  return result;
}

// Keeps the greater of two tokens that have the same text.
void AddTop(absl::string_view token, float logprob, Json& top) {
  const double number = JsonFloat(logprob);
  const std::string text = TokenText(token);
  const auto found = top.find(text);
  if (found == top.end()) {
    top[text] = number;
  } else if (found->get<double>() < number) {
    *found = number;
  }
}

}  // namespace

void AppendChatLogprobs(const TokenLogprobs& tokens, Json& content) {
  for (const v1::TokenLogprob& token : tokens) {
    Json entry = TokenJson(token.token(), token.logprob());
    Json top = Json::array();
    for (const v1::TopLogprob& rival : token.top_logprobs()) {
      top.push_back(TokenJson(rival.token(), rival.logprob()));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
}

size_t TextOffsets::Next(absl::string_view bytes) {
  const size_t offset = characters_;
  std::string pending = pending_;
  Characters characters = Completed(bytes, pending);
  const absl::string_view known = absl::string_view(text_).substr(std::min(bytes_, text_.size()));
  const size_t shared = std::min(known.size(), characters.text.size());
  const absl::string_view token = characters.text;
  if (known.substr(0, shared) == token.substr(0, shared)) {
    bytes_ += token.size();
    characters_ += characters.count;
    pending_ = std::move(pending);
  } else if (bytes_ == 0 && absl::StartsWith(token, " ") &&
             absl::StartsWith(known, token.substr(1))) {
    // Some tokenizers begin a text with a space that is not in it.
    bytes_ += token.size() - 1;
    characters_ += characters.count - 1;
    pending_ = std::move(pending);
  }
  return offset;
}

void CompletionLogprobs::Append(const TokenLogprobs& tokens, TextOffsets& offsets) {
  for (const v1::TokenLogprob& token : tokens) {
    tokens_.push_back(TokenText(token.token()));
    text_offset_.push_back(offsets.Next(token.token()));
    if (!token.has_logprob()) {
      token_logprobs_.push_back(nullptr);
      top_logprobs_.push_back(nullptr);
      continue;
    }
    token_logprobs_.push_back(JsonFloat(token.logprob()));
    Json top = Json::object();
    for (const v1::TopLogprob& rival : token.top_logprobs()) {
      AddTop(rival.token(), rival.logprob(), top);
    }
    AddTop(token.token(), token.logprob(), top);
    top_logprobs_.push_back(std::move(top));
  }
}

Json CompletionLogprobs::ToJson() const {
  return {{"tokens", tokens_},
          {"token_logprobs", token_logprobs_},
          {"top_logprobs", top_logprobs_},
          {"text_offset", text_offset_}};
}

}  // namespace baton
