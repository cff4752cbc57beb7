#include "router/tools/custom_input.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "common/jinja/string_literal.h"
#include "common/json/json_tree.h"
#include "common/rpc/limits.h"
#include "router/tools/text_reader.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Longer ones, which have blanks, are read when the call has ended.
constexpr size_t kMaxInputHeadBytes = 256;
constexpr JsonLimits kLimits = {
    .depth = kMaxJsonDepth, .keys = kMaxJsonKeys, .object_keys = kMaxObjectKeys};
constexpr size_t kUnicodeEscapeBytes = 6;  // \u0000
constexpr uint32_t kFirstHigh = 0xd800, kFirstLow = 0xdc00, kLastLow = 0xdfff;

// Reads {"input": " from the reader.
Fit ReadHead(TextReader& reader) {
  for (const absl::string_view part : {"{", "\"input\"", ":", "\""}) {
    reader.SkipSpace();
    if (const Fit fit = reader.Literal(part); fit != Fit::kYes) return fit;
  }
  return Fit::kYes;
}

}  // namespace

std::string CustomArguments(const std::string& input) {
  return absl::StrCat(
      "{\"input\": ", Json(input).dump(-1, ' ', false, Json::error_handler_t::replace), "}");
}

std::string CustomInput::Add(absl::string_view arguments) {
  std::string rest(arguments);
  if (state_ == State::kHead || state_ == State::kOther) {
    held_ += std::exchange(rest, {});
    if (state_ == State::kHead) rest = TakeHead();
  }
  std::string text;
  for (const char byte : rest) {
    if (state_ == State::kText) Push(byte, text);
  }
  return text;
}

std::string CustomInput::Finish() {
  std::string text;
  EndPair(text);
  if (state_ == State::kText || state_ == State::kEnded) return text;
  JsonFault fault;
  const std::optional<Json> arguments = ParseJson<Json>(held_, kLimits, fault);
  if (arguments.has_value() && arguments->is_object()) {
    const auto input = arguments->find("input");
    if (input != arguments->end() && input->is_string()) return input->get<std::string>();
  }
  return std::exchange(held_, {});
}

std::string CustomInput::TakeHead() {
  TextReader reader(held_);
  const Fit fit = ReadHead(reader);
  if (fit == Fit::kYes && reader.at() <= kMaxInputHeadBytes) {
    std::string rest(reader.rest());
    state_ = State::kText;
    held_.clear();
    return rest;
  }
  if (fit != Fit::kMore || held_.size() > kMaxInputHeadBytes) state_ = State::kOther;
  return "";
}

void CustomInput::Push(char byte, std::string& text) {
  if (!escape_.empty()) {
    escape_ += byte;
    EndEscape(text);
  } else if (byte == '\\') {
    escape_ += byte;
  } else {
    EndPair(text);
    if (byte == '"') {
      state_ = State::kEnded;
    } else {
      text += byte;
    }
  }
}

// Appends what the escape means, if it is whole.
void CustomInput::EndEscape(std::string& text) {
  const char last = escape_.back();
  if (escape_[1] != 'u') {
    constexpr absl::string_view kLetters = "nrtbf\"\\/", kMeant = "\n\r\t\b\f\"\\/";
    EndPair(text);
    const size_t at = kLetters.find(last);
    // What is no escape of JSON stays as the model wrote it.
    text += at == absl::string_view::npos ? escape_ : std::string(1, kMeant[at]);
    escape_.clear();
  } else if (escape_.size() > 2 && !absl::ascii_isxdigit(static_cast<unsigned char>(last))) {
    EndPair(text);
    escape_.pop_back();
    text += std::exchange(escape_, {});
    Push(last, text);
  } else if (escape_.size() == kUnicodeEscapeBytes) {
    uint32_t unit = 0;
    if (!absl::SimpleHexAtoi(escape_.substr(2), &unit)) unit = 0;  // four digits always fit
    escape_.clear();
    PushUnit(unit, text);
  }
}

void CustomInput::PushUnit(uint32_t unit, std::string& text) {
  const bool is_high = unit >= kFirstHigh && unit < kFirstLow;
  const bool is_low = unit >= kFirstLow && unit <= kLastLow;
  if (is_low && high_half_ != 0) {
    constexpr uint32_t kFirstOfPairs = 0x10000;
    const uint32_t point =
        kFirstOfPairs + ((std::exchange(high_half_, 0) - kFirstHigh) << 10) + (unit - kFirstLow);
    return jinja::AppendUtf8(point, text);
  }
  EndPair(text);
  if (is_high || is_low) high_half_ = unit;
  if (is_low) return EndPair(text);
  if (!is_high) jinja::AppendUtf8(unit, text);
}

void CustomInput::EndPair(std::string& text) {
  if (std::exchange(high_half_, 0) != 0) text += "\xef\xbf\xbd";
}

}  // namespace baton
