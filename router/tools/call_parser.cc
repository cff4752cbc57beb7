#include "router/tools/call_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

#include "router/tools/call_id.h"
#include "router/tools/marker_search.h"

namespace baton {

using Kind = AnswerPart::Kind;

CallParser::CallParser(CallSyntax syntax, std::shared_ptr<const ToolSchemas> tools, uint64_t seed,
                       int choice)
    : syntax_(std::move(syntax)), tools_(std::move(tools)), seed_(seed), choice_(choice) {
  is_bare_ = syntax_.is_bare;
  if (is_bare_) state_ = State::kHead;
}

void CallParser::Add(absl::string_view text, AnswerParts& parts) {
  held_.append(text.data(), text.size());
  while (Step(parts)) {
  }
  held_.erase(0, at_);
  at_ = 0;
}

void CallParser::Finish(AnswerParts& parts) {
  // What is held behind a call is a beginning of its form, or of the next call.
  const bool may_be_text =
      state_ == State::kText || state_ == State::kHead || state_ == State::kWhole;
  if (may_be_text && !is_behind_call_) parts.AddText(Rest());
  held_.clear();
  at_ = 0;
  state_ = State::kText;
}

bool CallParser::Step(AnswerParts& parts) {
  switch (state_) {
    case State::kText:
      return StepText(parts);
    case State::kHead:
      return StepHead(parts);
    case State::kWhole:
      return StepWhole(parts);
    case State::kArguments:
      return StepArguments(parts);
    case State::kRest:
      return StepRest();
    case State::kAfterCall:
      return StepAfterCall();
    case State::kAfterSection:
      return StepAfterSection();
  }
  return false;
}

bool CallParser::Enter(State state) {
  state_ = state;
  return true;
}

bool CallParser::StepText(AnswerParts& parts) {
  const MarkerSearch search = FindMarker(Rest(), syntax_.begins);
  AddText(Rest().substr(0, search.text_bytes), parts);
  if (search.marker < 0) {
    at_ += search.text_bytes;
    return false;
  }
  // "<function=" is a marker and a part of the call.
  const std::string& marker = syntax_.begins[static_cast<size_t>(search.marker)];
  at_ += search.text_bytes;
  prefix_ = search.end - search.text_bytes - (marker == kXmlCallBegin ? marker.size() : 0);
  in_list_ = false;
  is_bare_ = false;
  return Enter(State::kHead);
}

CallHead CallParser::ReadHead(absl::string_view text) const {
  size_t open = 0;
  if (!in_list_) {
    if (const Fit fit = ReadTokens(text, syntax_.open, open); fit != Fit::kYes) return {.fit = fit};
  }
  text.remove_prefix(open);
  CallHead head;
  if (syntax_.has_xml) {
    TextReader reader(text);
    reader.SkipSpace();
    head.begin = reader.at();
    head.fit = reader.Literal(kXmlCallBegin);
    head.is_whole = true;
  }
  if (head.fit == Fit::kNo) {
    head = syntax_.body == CallSyntax::Body::kObject ? ReadObjectHead(text) : ReadNamedHead(text);
  }
  if (head.fit == Fit::kYes && !head.is_whole && is_bare_ && !tools_->contains(head.name)) {
    head.fit = Fit::kNo;
  }
  head.begin += open;
  return head;
}

bool CallParser::StepHead(AnswerParts& parts) {
  const absl::string_view text = Rest().substr(prefix_).substr(0, kMaxHeadBytes);
  const CallHead head = ReadHead(text);
  if (head.fit == Fit::kMore && text.size() < kMaxHeadBytes) return false;
  if (head.fit != Fit::kYes) return Reject(parts);
  scanner_ = JsonScanner();
  if (head.is_whole) {
    whole_begin_ = prefix_ + head.begin;
    scanned_ = 0;
    is_xml_ = Rest()[whole_begin_] == '<';
    xml_ = XmlCallScanner();
    return Enter(State::kWhole);
  }
  BeginCall(head.name, parts);
  at_ += prefix_ + head.begin;
  return Enter(State::kArguments);
}

bool CallParser::Reject(AnswerParts& parts) {
  AddText(Rest().substr(0, prefix_), parts);
  at_ += prefix_;
  prefix_ = 0;
  return Enter(State::kText);
}

void CallParser::AddText(absl::string_view text, AnswerParts& parts) {
  if (!absl::StripAsciiWhitespace(text).empty()) is_behind_call_ = false;
  parts.AddText(text);
}

Fit CallParser::ScanWhole() {
  const absl::string_view text = Rest().substr(whole_begin_).substr(0, kMaxWholeCallBytes);
  Fit fit = Fit::kMore;
  if (is_xml_) {
    fit = xml_.Scan(text);
    if (fit == Fit::kYes) scanned_ = xml_.end();
  }
  while (!is_xml_ && fit == Fit::kMore && scanned_ < text.size()) {
    const JsonScanner::Result result = scanner_.Push(text[scanned_++]);
    if (result == JsonScanner::Result::kDone) fit = Fit::kYes;
    if (result == JsonScanner::Result::kBad) fit = Fit::kNo;
  }
  if (fit != Fit::kMore || text.size() < kMaxWholeCallBytes) return fit;
  scanned_ = kMaxWholeCallBytes;
  return Fit::kNo;
}

std::optional<WholeCall> CallParser::TakeWhole() const {
  const absl::string_view text = Rest().substr(whole_begin_, scanned_);
  std::optional<WholeCall> call;
  if (is_xml_) {
    const absl::string_view name = XmlCallName(text);
    const auto tool = tools_->find(std::string(name));
    call = ReadXmlCall(text, tool == tools_->end() ? nlohmann::ordered_json() : tool->second);
  } else {
    call = ReadWholeCall(text);
  }
  if (call.has_value() && is_bare_ && !tools_->contains(call->name)) return std::nullopt;
  return call;
}

bool CallParser::StepWhole(AnswerParts& parts) {
  const Fit fit = ScanWhole();
  if (fit == Fit::kMore) return false;
  const std::optional<WholeCall> call = fit == Fit::kYes ? TakeWhole() : std::nullopt;
  if (!call.has_value()) {
    // Markers inside of what is too long are not looked for, which would take long too; that of an
    // XML call would be found again.
    if (is_xml_) prefix_ = whole_begin_ + sizeof(kXmlCallBegin) - 1;
    if (scanned_ == kMaxWholeCallBytes) prefix_ = whole_begin_ + scanned_;
    return Reject(parts);
  }
  BeginCall(call->name, parts);
  parts.Add(Kind::kArguments, call->arguments, calls_ - 1);
  at_ += whole_begin_ + scanned_;
  return Enter(State::kAfterCall);
}

void CallParser::BeginCall(const std::string& name, AnswerParts& parts) {
  parts.BeginCall(calls_, CallId(seed_, choice_, calls_), name);
  ++calls_;
  in_list_ = true;
  is_behind_call_ = true;
}

bool CallParser::StepArguments(AnswerParts& parts) {
  const absl::string_view text = Rest();
  size_t end = 0;
  JsonScanner::Result result = JsonScanner::Result::kMore;
  while (end < text.size() && result == JsonScanner::Result::kMore) {
    result = scanner_.Push(text[end++]);
  }
  if (result == JsonScanner::Result::kBad) --end;
  parts.Add(Kind::kArguments, text.substr(0, end), calls_ - 1);
  at_ += end;
  if (result == JsonScanner::Result::kMore) return false;
  if (result == JsonScanner::Result::kBad) return Enter(State::kText);
  return Enter(syntax_.body == CallSyntax::Body::kObject ? State::kRest : State::kAfterCall);
}

bool CallParser::StepRest() {
  const absl::string_view text = Rest().substr(0, kMaxHeadBytes);
  size_t end = 0;
  const Fit fit = ReadObjectRest(text, end);
  if (fit == Fit::kMore && text.size() < kMaxHeadBytes) return false;
  if (fit != Fit::kYes) return Enter(State::kText);
  at_ += end;
  return Enter(State::kAfterCall);
}

bool CallParser::StepAfterCall() {
  if (syntax_.separator.empty() && syntax_.close.empty()) return Enter(State::kAfterSection);
  const absl::string_view text = Rest().substr(0, kMaxHeadBytes);
  size_t end = 0;
  const Fit next =
      syntax_.separator.empty() ? Fit::kNo : ReadTokens(text, {syntax_.separator}, end);
  if (next == Fit::kYes) {
    prefix_ = end;
    return Enter(State::kHead);
  }
  const Fit closed = syntax_.close.empty() ? Fit::kNo : ReadTokens(text, syntax_.close, end);
  if (closed == Fit::kYes) {
    at_ += end;
    return Enter(State::kAfterSection);
  }
  const bool may_fit = next == Fit::kMore || closed == Fit::kMore;
  if (may_fit && text.size() < kMaxHeadBytes) return false;
  return Enter(syntax_.close.empty() ? State::kAfterSection : State::kText);
}

bool CallParser::StepAfterSection() {
  while (!Rest().empty() && IsJsonSpace(Rest().front())) ++at_;
  if (Rest().empty()) return false;
  bool may_fit = false;
  for (const std::string& marker : syntax_.trailing) {
    if (absl::StartsWith(Rest(), marker)) {
      at_ += marker.size();
      return true;
    }
    may_fit = may_fit || absl::StartsWith(marker, Rest());
  }
  return may_fit ? false : Enter(State::kText);
}

}  // namespace baton
