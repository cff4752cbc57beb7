#include "router/http/request_parser.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/check.h"
#include "common/net/http_host.h"
#include "router/http/request_target.h"

namespace baton {
namespace {

constexpr absl::string_view kLineEnd = "\r\n";
// Longer than any chunk's size with an extension that a client would send.
constexpr size_t kMaxChunkLineBytes = 1024;
constexpr int kMaxEmptyLines = 2;
// A parsed header takes far more memory than the few bytes that it can be sent with.
constexpr size_t kMaxHeaders = 128;

bool IsTokenByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos;
}

bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenByte);
}

// Whether a header's value may contain the byte: visible characters, spaces, tabs and bytes beyond
// ASCII.
bool IsValueByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

absl::string_view WithoutBlanks(absl::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The items of the comma-separated lists in the headers of that name, in lower case.
std::vector<std::string> ListItems(const HttpRequest& request, absl::string_view name) {
  std::vector<std::string> items;
  for (const std::string& value : request.HeaderValues(name)) {
    for (const absl::string_view item : absl::StrSplit(value, ',')) {
      const absl::string_view bare = WithoutBlanks(item);
      if (!bare.empty()) items.push_back(absl::AsciiStrToLower(bare));
    }
  }
  return items;
}

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// The size at the beginning of a chunk's first line; nullopt if there is none that can be.
std::optional<uint64_t> ChunkSize(absl::string_view line) {
  const size_t extension = line.find(';');
  absl::string_view digits = line.substr(0, extension);
  if (extension != absl::string_view::npos) {
    while (absl::ConsumeSuffix(&digits, " ") || absl::ConsumeSuffix(&digits, "\t")) continue;
  }
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  uint64_t size = 0;
  for (const char c : digits) {
    const auto byte = static_cast<unsigned char>(c);
    if (!absl::ascii_isxdigit(byte)) return std::nullopt;
    const int digit = absl::ascii_isdigit(byte) ? c - '0' : absl::ascii_tolower(byte) - 'a' + 10;
    size = size * 16 + static_cast<uint64_t>(digit);
  }
  return size;
}

}  // namespace

bool RequestParser::Refuse(int status, absl::string_view message) {
  refused_ = true;
  refusal_ = {.status = status, .message = std::string(message)};
  return false;
}

void RequestParser::DropBody() {
  keeps_body_ = false;
  Free(body_);
}

RequestParser::Found RequestParser::Parse(std::string& input) {
  BATON_CHECK(!refused_ && next_ != Next::kEnd, "the request was read already");
  return next_ == Next::kHead ? ParseHead(input) : ParseBody(input);
}

RequestParser::Found RequestParser::ParseHead(std::string& input) {
  // Old clients send an empty line after a body, which RFC 9112 has servers overlook.
  if (!begun_ && !SkipEmptyLines(input)) return Found::kError;
  if (!begun_ && (input.empty() || input == "\r")) return Found::kNothingYet;
  begun_ = true;
  const std::optional<size_t> end = FindHeadEnd(input);
  if (refused_) return Found::kError;
  if (!end.has_value()) return Found::kNothingYet;
  if (!ReadHead(absl::string_view(input).substr(0, *end)) || !CheckHeaders()) return Found::kError;
  input.erase(0, *end);
  return Found::kHead;
}

bool RequestParser::SkipEmptyLines(std::string& input) {
  size_t skipped = 0;
  while (absl::StartsWith(absl::string_view(input).substr(skipped), kLineEnd)) {
    if (++empty_lines_ > kMaxEmptyLines) {
      return Refuse(400, "there are more than two empty lines before a request");
    }
    skipped += kLineEnd.size();
  }
  input.erase(0, skipped);
  return true;
}

std::optional<size_t> RequestParser::FindHeadEnd(absl::string_view input) {
  // A line's end is judged together with what follows it.
  for (; scanned_ < input.size(); ++scanned_) {
    const char c = input[scanned_];
    if (scanned_ >= limits_.max_header_bytes) {
      Refuse(431, absl::StrCat("the headers are longer than ", limits_.max_header_bytes, " bytes"));
      return std::nullopt;
    }
    if (c == '\r') {
      if (scanned_ + 1 == input.size()) return std::nullopt;
      if (input[scanned_ + 1] == '\n') continue;
      Refuse(400, "the headers have a carriage return without a line feed");
      return std::nullopt;
    }
    if (c != '\n') {
      if (IsValueByte(c)) continue;
      Refuse(400, "the headers have a control character");
      return std::nullopt;
    }
    if (scanned_ == 0 || input[scanned_ - 1] != '\r') {
      Refuse(400, "the headers have a line feed without a carriage return");
      return std::nullopt;
    }
    if (scanned_ >= 3 && input[scanned_ - 2] == '\n') return scanned_ + 1;
    if (scanned_ + 1 == input.size()) return std::nullopt;
    if (input[scanned_ + 1] == ' ' || input[scanned_ + 1] == '\t') {
      Refuse(400, "a header goes on in the next line; write each in one line");
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool RequestParser::ReadHead(absl::string_view head) {
  head.remove_suffix(2 * kLineEnd.size());
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(head, kLineEnd)) {
    if (!(first ? ReadRequestLine(line) : ReadHeader(line))) return false;
    first = false;
  }
  return true;
}

bool RequestParser::ReadRequestLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsToken(words[0])) {
    return Refuse(400, "the first line must be a method, a target and HTTP/1.1");
  }
  const absl::string_view version = words[2];
  if (version.size() != 8 || !absl::StartsWith(version, "HTTP/") || version[6] != '.' ||
      !AllDigits(version.substr(5, 1)) || !AllDigits(version.substr(7))) {
    return Refuse(400, "the first line must be a method, a target and HTTP/1.1");
  }
  if (version[5] != '1') return Refuse(505, "only HTTP/1.1 and HTTP/1.0 are supported");
  framing_.http_1_1 = version[7] != '0';
  request_.method = std::string(words[0]);
  absl::StatusOr<RequestTarget> target = ParseRequestTarget(words[0], words[1]);
  if (!target.ok()) return Refuse(400, target.status().message());
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  authority_ = std::move(target->authority);
  return true;
}

bool RequestParser::ReadHeader(absl::string_view line) {
  if (request_.headers.size() == kMaxHeaders) {
    return Refuse(431, absl::StrCat("there are more than ", kMaxHeaders, " headers"));
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Refuse(400, "a header's name has a byte that it must not have, or no ':' after it");
  }
  request_.headers.push_back({.name = absl::AsciiStrToLower(line.substr(0, colon)),
                              .value = std::string(WithoutBlanks(line.substr(colon + 1)))});
  return true;
}

bool RequestParser::CheckHeaders() {
  return CheckOnlyOnce() && CheckHost() && CheckLength() && CheckConnection();
}

bool RequestParser::CheckOnlyOnce() {
  for (const char* const name : {"host", "origin", "sec-fetch-site", "content-type"}) {
    if (request_.HeaderValues(name).size() > 1) {
      return Refuse(400, absl::StrCat("there is more than one header ", name));
    }
  }
  return true;
}

bool RequestParser::CheckHost() {
  const auto is_host = [](const HttpHeader& header) { return header.name == "host"; };
  const auto host = std::find_if(request_.headers.begin(), request_.headers.end(), is_host);
  if (host == request_.headers.end()) {
    if (framing_.http_1_1) return Refuse(400, "the header Host is missing");
    if (!authority_.empty()) request_.headers.push_back({.name = "host", .value = authority_});
    return true;
  }
  if (!IsHttpHost(host->value)) return Refuse(400, "the header Host does not contain a valid host");
  if (!authority_.empty()) host->value = authority_;
  return true;
}

bool RequestParser::CheckLength() {
  const std::vector<std::string> lengths = request_.HeaderValues("content-length");
  const std::vector<std::string> codings = request_.HeaderValues("transfer-encoding");
  if (!codings.empty()) {
    if (!lengths.empty()) {
      return Refuse(400, "there are both Content-Length and Transfer-Encoding; send one of them");
    }
    if (!framing_.http_1_1) return Refuse(400, "HTTP/1.0 has no Transfer-Encoding");
    if (ListItems(request_, "transfer-encoding") != std::vector<std::string>{"chunked"}) {
      return Refuse(501, "Transfer-Encoding can only be 'chunked' here");
    }
    framing_.has_body = true;
    next_ = Next::kChunkSize;
    return true;
  }
  next_ = Next::kSizedBody;
  if (lengths.empty()) return true;
  if (lengths.size() > 1 || !AllDigits(lengths[0])) {
    return Refuse(400, "Content-Length must be one number");
  }
  if (!absl::SimpleAtoi(lengths[0], &left_)) left_ = std::numeric_limits<uint64_t>::max();
  framing_.has_body = left_ > 0;
  return true;
}

bool RequestParser::CheckConnection() {
  const std::vector<std::string> options = ListItems(request_, "connection");
  const auto has = [&](absl::string_view option) {
    return std::find(options.begin(), options.end(), option) != options.end();
  };
  framing_.keep_alive = framing_.http_1_1 ? !has("close") : has("keep-alive") && !has("close");
  for (const std::string& expected : request_.HeaderValues("expect")) {
    if (!framing_.http_1_1) continue;  // HTTP/1.0 must ignore the header
    if (!absl::EqualsIgnoreCase(expected, "100-continue")) {
      return Refuse(417, "Expect can only be '100-continue' here");
    }
    framing_.expects_continue = framing_.has_body;
  }
  return true;
}

RequestParser::Found RequestParser::ParseBody(std::string& input) {
  absl::string_view rest = input;
  bool goes_on = true;
  while (goes_on && next_ != Next::kEnd) {
    switch (next_) {
      case Next::kSizedBody:
      case Next::kChunkData:
        goes_on = TakeSized(rest);
        break;
      case Next::kChunkSize:
        goes_on = TakeChunkSize(rest);
        break;
      case Next::kChunkEnd:
        goes_on = TakeChunkEnd(rest);
        break;
      case Next::kTrailers:
        goes_on = TakeTrailers(rest);
        break;
      case Next::kHead:
      case Next::kEnd:
        goes_on = false;
    }
  }
  input.erase(0, input.size() - rest.size());
  if (refused_) return Found::kError;
  return next_ == Next::kEnd ? Found::kRequest : Found::kNothingYet;
}

bool RequestParser::TakeSized(absl::string_view& rest) {
  if (left_ > limits_.max_body_bytes - body_bytes_) {
    return Refuse(413, absl::StrCat("the body is longer than ", limits_.max_body_bytes, " bytes"));
  }
  const size_t taken = std::min<uint64_t>(left_, rest.size());
  if (keeps_body_) body_.append(rest.data(), taken);
  body_bytes_ += taken;
  rest.remove_prefix(taken);
  left_ -= taken;
  if (left_ > 0) return false;
  next_ = next_ == Next::kSizedBody ? Next::kEnd : Next::kChunkEnd;
  return true;
}

bool RequestParser::TakeChunkSize(absl::string_view& rest) {
  const size_t end = rest.find('\n');
  const absl::string_view line = rest.substr(0, end == absl::string_view::npos ? end : end + 1);
  if (line.size() > kMaxChunkLineBytes) return Refuse(400, "the first line of a chunk is too long");
  if (end == absl::string_view::npos) return false;
  const bool ends_well = absl::EndsWith(line, kLineEnd);
  const absl::string_view text = line.substr(0, line.size() - (ends_well ? kLineEnd.size() : 1));
  const std::optional<uint64_t> size = ChunkSize(text);
  if (!ends_well || !size.has_value() || !std::all_of(text.begin(), text.end(), IsValueByte)) {
    return Refuse(400, "a chunk of the body does not begin with its size");
  }
  rest.remove_prefix(line.size());
  left_ = *size;
  next_ = left_ > 0 ? Next::kChunkData : Next::kTrailers;
  return true;
}

bool RequestParser::TakeChunkEnd(absl::string_view& rest) {
  if (!absl::StartsWith(kLineEnd, rest.substr(0, kLineEnd.size()))) {
    return Refuse(400, "a chunk of the body is longer than its size");
  }
  if (rest.size() < kLineEnd.size()) return false;
  rest.remove_prefix(kLineEnd.size());
  next_ = Next::kChunkSize;
  return true;
}

// They are read and thrown away, as RFC 9110 allows, so that none of them counts as a header.
bool RequestParser::TakeTrailers(absl::string_view& rest) {
  const size_t end = rest.find('\n');
  const absl::string_view line = rest.substr(0, end == absl::string_view::npos ? end : end + 1);
  if (trailer_bytes_ + line.size() > limits_.max_header_bytes) {
    return Refuse(431, absl::StrCat("the headers after the body are longer than ",
                                    limits_.max_header_bytes, " bytes"));
  }
  if (end == absl::string_view::npos) return false;
  if (!absl::EndsWith(line, kLineEnd)) {
    return Refuse(400, "a header after the body has a line feed without a carriage return");
  }
  const absl::string_view text = line.substr(0, line.size() - kLineEnd.size());
  rest.remove_prefix(line.size());
  trailer_bytes_ += line.size();
  if (text.empty()) {
    next_ = Next::kEnd;
    return true;
  }
  const size_t colon = text.find(':');
  const bool reads = colon != absl::string_view::npos && IsToken(text.substr(0, colon)) &&
                     std::all_of(text.begin(), text.end(), IsValueByte);
  return reads || Refuse(400, "a header after the body cannot be read");
}

}  // namespace baton
