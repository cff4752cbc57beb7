#include "router/tools/marker_tokens.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "router/tools/marker_search.h"

namespace baton {
namespace {

// U+FDD0, which Unicode keeps for the inside of programs.
constexpr absl::string_view kGuard = "\xEF\xB7\x90";

std::string Guarded(absl::string_view marker) {
  return absl::StrCat(marker.substr(0, 1), kGuard, marker.substr(1));
}

}  // namespace

void MarkerGuard::AddTokens(absl::Span<const uint32_t> ids) {
  const std::vector<std::string>& markers = tokens_->markers;
  for (const uint32_t id : ids) {
    const absl::string_view text = tokens_->texts.bytes(id);
    if (tokens_->texts.is_special(id) &&
        std::find(markers.begin(), markers.end(), text) != markers.end()) {
      spelled_.clear();  // what it holds cannot go on in a marker
      are_tokens_.push_back(true);
      continue;
    }
    spelled_.append(text.data(), text.size());
    MarkerSearch search = FindMarker(spelled_, markers);
    while (search.marker >= 0) {
      are_tokens_.push_back(false);
      spelled_.erase(0, search.end);
      search = FindMarker(spelled_, markers);
    }
    spelled_.erase(0, search.text_bytes);
  }
}

std::string MarkerGuard::Add(absl::string_view text) {
  held_.append(text.data(), text.size());
  std::string guarded;
  size_t at = 0;
  while (true) {
    const absl::string_view rest = absl::string_view(held_).substr(at);
    const MarkerSearch search = FindMarker(rest, tokens_->markers);
    if (search.marker < 0) {
      absl::StrAppend(&guarded, rest.substr(0, search.text_bytes));
      held_.erase(0, at + search.text_bytes);
      return guarded;
    }
    bool is_token = true;
    if (!are_tokens_.empty()) {
      is_token = are_tokens_.front();
      are_tokens_.pop_front();
    }
    const std::string& marker = tokens_->markers[static_cast<size_t>(search.marker)];
    absl::StrAppend(&guarded, rest.substr(0, search.begin), is_token ? marker : Guarded(marker));
    at += search.end;
  }
}

TokenAwareParser::TokenAwareParser(const std::shared_ptr<const MarkerTokens>& tokens,
                                   std::unique_ptr<AnswerParser> parser)
    : guard_(tokens), parser_(std::move(parser)) {
  for (const std::string& marker : tokens->markers) plain_.emplace_back(Guarded(marker), marker);
}

std::vector<AnswerPart> TokenAwareParser::Add(absl::string_view text) {
  return Unguarded(parser_->Add(guard_.Add(text)));
}

std::vector<AnswerPart> TokenAwareParser::Finish() {
  std::vector<AnswerPart> parts = parser_->Add(guard_.Finish());
  std::vector<AnswerPart> last = parser_->Finish();
  std::move(last.begin(), last.end(), std::back_inserter(parts));
  return Unguarded(std::move(parts));
}

std::vector<AnswerPart> TokenAwareParser::Unguarded(std::vector<AnswerPart> parts) const {
  for (AnswerPart& part : parts) {
    if (absl::StrContains(part.text, kGuard)) absl::StrReplaceAll(plain_, &part.text);
  }
  return parts;
}

}  // namespace baton
