#include "router/http/answer_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

absl::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";  // RFC 9112 allows an empty reason phrase
  }
}

void AppendHeader(absl::string_view name, absl::string_view value, std::string& text) {
  const size_t begin = text.size();
  absl::StrAppend(&text, name, ": ", value);
  std::replace_if(
      text.begin() + static_cast<ptrdiff_t>(begin), text.end(),
      [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < ' ' || byte == 0x7f;
      },
      ' ');
  text += "\r\n";
}

// A response that must not have a body must not have its length either.
bool HasNoBody(int status) { return status == 204 || status == 304; }

}  // namespace

std::string AnswerHeadText(const AnswerHead& head) {
  std::string text = absl::StrCat("HTTP/1.1 ", head.status, " ", Reason(head.status), "\r\n");
  AppendHeader("Date",
               absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", head.date, absl::UTCTimeZone()), text);
  for (const HttpHeader& header : head.headers) AppendHeader(header.name, header.value, text);
  if (head.content_length.has_value()) {
    if (!HasNoBody(head.status)) {
      AppendHeader("Content-Length", absl::StrCat(*head.content_length), text);
    }
  } else if (head.http_1_1) {
    AppendHeader("Transfer-Encoding", "chunked", text);
  }
  if (!head.keep_alive) {
    AppendHeader("Connection", "close", text);
  } else if (!head.http_1_1) {
    AppendHeader("Connection", "keep-alive", text);
  }
  text += "\r\n";
  return text;
}

std::string ChunkHead(size_t bytes) { return absl::StrCat(absl::Hex(bytes), "\r\n"); }

}  // namespace baton
