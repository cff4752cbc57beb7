#include "router/tools/harmony_parser.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "router/tools/call_id.h"
#include "router/tools/marker_search.h"
#include "router/tools/text_reader.h"

namespace baton {
namespace {

using Kind = AnswerPart::Kind;

constexpr absl::string_view kMessage = "<|message|>";
constexpr absl::string_view kChannel = "<|channel|>";
constexpr absl::string_view kStart = "<|start|>";
constexpr absl::string_view kAnalysis = "<|channel|>analysis";
constexpr absl::string_view kRecipient = " to=";
constexpr absl::string_view kFunction = "to=functions.";

// What ends a message; those from kFirstHeader on begin the next one's header.
const std::vector<std::string>& Ends() {
  static const auto& ends = *new std::vector<std::string>{"<|end|>", "<|call|>", "<|return|>",
                                                          "<|start|>", "<|channel|>"};
  return ends;
}
constexpr int kFirstHeader = 3;

// The name of the function that a header is for; empty: none.
absl::string_view FunctionOf(absl::string_view header) {
  const size_t at = header.find(kFunction);
  if (at == absl::string_view::npos) return "";
  header.remove_prefix(at + kFunction.size());
  const auto* end = std::find_if_not(header.begin(), header.end(), IsToolNameByte);
  const absl::string_view name = header.substr(0, static_cast<size_t>(end - header.begin()));
  return IsToolName(name) ? name : "";
}

}  // namespace

std::vector<std::string> HarmonyMarkers() {
  std::vector<std::string> markers = Ends();
  markers.emplace_back(kMessage);
  return markers;
}

std::vector<AnswerPart> HarmonyParser::Add(absl::string_view text) {
  held_.append(text.data(), text.size());
  while (Step()) {
  }
  held_.erase(0, at_);
  at_ = 0;
  return parts_.Take();
}

std::vector<AnswerPart> HarmonyParser::Finish() {
  // A header without its message says nothing, but what begins like a recipient may be text.
  const bool is_header = absl::StartsWith(Rest(), "<|");
  if (state_ == State::kBegin || (state_ == State::kHeader && !is_header)) parts_.AddText(Rest());
  if (state_ == State::kBody) AddBody(Rest());
  EndMessage();
  held_.clear();
  return parts_.Take();
}

bool HarmonyParser::Step() {
  switch (state_) {
    case State::kBegin:
    case State::kBetween:
      return StepBegin();
    case State::kHeader:
      return StepHeader();
    case State::kBody:
      return StepBody();
  }
  return false;
}

bool HarmonyParser::StepBegin() {
  size_t blanks = 0;
  while (state_ == State::kBetween && blanks < Rest().size() && IsJsonSpace(Rest()[blanks])) {
    ++blanks;
  }
  at_ += blanks;
  bool may_fit = false;
  for (const absl::string_view begin : {kChannel, kStart, kRecipient}) {
    const Fit fit = TextReader(Rest()).Literal(begin);
    if (fit == Fit::kYes) {
      state_ = State::kHeader;
      return true;
    }
    may_fit = may_fit || fit == Fit::kMore;
  }
  if (may_fit) return false;
  state_ = State::kBody;
  return true;
}

bool HarmonyParser::StepHeader() {
  const absl::string_view text = Rest().substr(0, kMaxHarmonyHeaderBytes);
  const size_t end = text.find(kMessage);
  if (end == absl::string_view::npos) {
    if (text.size() < kMaxHarmonyHeaderBytes) return false;
    AddBody(text);
    at_ += kMaxHarmonyHeaderBytes;
  } else {
    BeginMessage(text.substr(0, end));
    at_ += end + kMessage.size();
  }
  state_ = State::kBody;
  return true;
}

bool HarmonyParser::StepBody() {
  const MarkerSearch search = FindMarker(Rest(), Ends());
  AddBody(Rest().substr(0, search.text_bytes));
  if (search.marker < 0) {
    at_ += search.text_bytes;
    return false;
  }
  EndMessage();
  const bool is_header = search.marker >= kFirstHeader;
  at_ += is_header ? search.begin : search.end;
  state_ = is_header ? State::kHeader : State::kBetween;
  return true;
}

void HarmonyParser::BeginMessage(absl::string_view header) {
  const absl::string_view function = FunctionOf(header);
  if (has_tools_ && !function.empty()) {
    kind_ = Kind::kArguments;
    parts_.BeginCall(calls_, CallId(seed_, choice_, calls_), std::string(function));
    ++calls_;
  } else if (absl::StrContains(header, kRecipient)) {
    parts_.AddText(absl::StrCat(header, kMessage));
  } else if (absl::StrContains(header, kAnalysis)) {
    kind_ = Kind::kReasoning;
  }
}

void HarmonyParser::AddBody(absl::string_view text) {
  parts_.Add(kind_, text, kind_ == Kind::kArguments ? calls_ - 1 : 0);
  has_body_ = has_body_ || !text.empty();
}

void HarmonyParser::EndMessage() {
  if (kind_ == Kind::kArguments && !has_body_) AddBody("{}");
  kind_ = Kind::kText;
  has_body_ = false;
}

}  // namespace baton
