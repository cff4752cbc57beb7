#include "tests/router/openai/test_tool_form.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr absl::string_view kThink = "<think>", kEndThink = "</think>", kCall = "<call ",
                            kEndCall = "</call>";

// How many of the last bytes of `text` begin `marker`.
size_t Begun(absl::string_view text, absl::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (absl::EndsWith(text, marker.substr(0, size))) return size;
  }
  return 0;
}

// <think>reasoning</think>text<call NAME>arguments</call>
class TestParser final : public AnswerParser {
 public:
  explicit TestParser(int choice) : choice_(choice) {}

  std::vector<AnswerPart> Add(absl::string_view text) override {
    rest_.append(text.data(), text.size());
    std::vector<AnswerPart> parts;
    while (Step(parts)) {
    }
    return parts;
  }

  std::vector<AnswerPart> Finish() override {
    std::vector<AnswerPart> parts;
    Emit(std::exchange(rest_, {}), parts);
    return parts;
  }

 private:
  void Emit(std::string text, std::vector<AnswerPart>& parts) {
    if (text.empty()) return;
    const bool in_call = kind_ == AnswerPart::Kind::kArguments;
    parts.push_back({.kind = kind_, .call = in_call ? calls_ - 1 : 0, .text = std::move(text)});
  }

  bool Step(std::vector<AnswerPart>& parts) {
    using Kind = AnswerPart::Kind;
    const bool outside = kind_ == Kind::kText;
    const absl::string_view end = kind_ == Kind::kReasoning ? kEndThink : kEndCall;
    const size_t think = outside ? rest_.find(std::string(kThink)) : std::string::npos;
    const size_t marker = rest_.find(std::string(outside ? kCall : end));
    if (think != std::string::npos && think < marker) {
      Emit(rest_.substr(0, think), parts);
      rest_.erase(0, think + kThink.size());
      kind_ = Kind::kReasoning;
      return true;
    }
    if (marker == std::string::npos) {
      const size_t held =
          outside ? std::max(Begun(rest_, kThink), Begun(rest_, kCall)) : Begun(rest_, end);
      Emit(rest_.substr(0, rest_.size() - held), parts);
      rest_.erase(0, rest_.size() - held);
      return false;
    }
    if (!outside) {
      Emit(rest_.substr(0, marker), parts);
      rest_.erase(0, marker + end.size());
      kind_ = Kind::kText;
      return true;
    }
    const size_t close = rest_.find('>', marker);
    Emit(rest_.substr(0, marker), parts);
    rest_.erase(0, marker);
    if (close == std::string::npos) return false;
    const size_t size = close - marker;
    parts.push_back({.kind = Kind::kCall,
                     .call = calls_,
                     .id = absl::StrCat("call_", choice_, "_", calls_),
                     .name = rest_.substr(kCall.size(), size - kCall.size())});
    ++calls_;
    rest_.erase(0, size + 1);
    kind_ = Kind::kArguments;
    return true;
  }

  const int choice_;
  std::string rest_;
  AnswerPart::Kind kind_ = AnswerPart::Kind::kText;
  int calls_ = 0;
};

}  // namespace

std::unique_ptr<AnswerParser> NewTestParser(int choice) {
  return std::make_unique<TestParser>(choice);
}

}  // namespace baton
