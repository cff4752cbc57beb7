#include "router/tools/json_scanner.h"

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace baton {

JsonScanner::Result JsonScanner::Push(char byte) {
  switch (state_) {
    case State::kString:
      if (byte == '\\') state_ = State::kEscape;
      if (byte == '"') state_ = string_is_key_ ? State::kColon : State::kAfterValue;
      return Result::kMore;
    case State::kEscape:
      state_ = State::kString;
      return Result::kMore;
    case State::kScalar:
      if (absl::ascii_isalnum(static_cast<unsigned char>(byte)) || byte == '.' || byte == '-' ||
          byte == '+') {
        scalar_ += byte;
        return scalar_.size() > kMaxScalarBytes ? Result::kBad : Result::kMore;
      }
      if (!nlohmann::json::accept(scalar_)) return Result::kBad;
      state_ = State::kAfterValue;
      return Push(byte);
    default:
      break;
  }
  if (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t') return Result::kMore;
  switch (state_) {
    case State::kFirstValue:
      return byte == ']' ? Close(byte) : BeginValue(byte);
    case State::kFirstKey:
      if (byte == '}') return Close(byte);
      [[fallthrough]];
    case State::kKey:
      if (byte != '"') return Result::kBad;
      string_is_key_ = true;
      state_ = State::kString;
      return Result::kMore;
    case State::kColon:
      if (byte != ':') return Result::kBad;
      state_ = State::kValue;
      return Result::kMore;
    case State::kAfterValue:
      return AfterValue(byte);
    default:
      return BeginValue(byte);
  }
}

JsonScanner::Result JsonScanner::BeginValue(char byte) {
  if (byte == '{' || byte == '[') {
    if (open_.size() == kMaxDepth) return Result::kBad;
    open_ += byte == '{' ? '}' : ']';
    state_ = byte == '{' ? State::kFirstKey : State::kFirstValue;
    return Result::kMore;
  }
  if (open_.empty()) return Result::kBad;
  if (byte == '"') {
    string_is_key_ = false;
    state_ = State::kString;
    return Result::kMore;
  }
  if (!absl::ascii_isalnum(static_cast<unsigned char>(byte)) && byte != '-') return Result::kBad;
  scalar_ = byte;
  state_ = State::kScalar;
  return Result::kMore;
}

JsonScanner::Result JsonScanner::Close(char byte) {
  if (open_.back() != byte) return Result::kBad;
  open_.pop_back();
  state_ = State::kAfterValue;
  return open_.empty() ? Result::kDone : Result::kMore;
}

JsonScanner::Result JsonScanner::AfterValue(char byte) {
  if (byte != ',') return Close(byte);
  state_ = open_.back() == '}' ? State::kKey : State::kValue;
  return Result::kMore;
}

}  // namespace baton
