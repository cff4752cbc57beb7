// A client that speaks HTTP byte by byte, as tests want it. Not thread-safe.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace baton {

struct HttpAnswer {
  int status = 0;                                // 0: there was none
  std::map<std::string, std::string> headers{};  // by names in lower case
  std::string body{};
  bool whole = false;  // whether the body came to its end
};

// `ReadSome` returns what comes next; empty: nothing more comes.
class HttpTestClient {
 public:
  using ReadSome = std::function<std::string()>;
  explicit HttpTestClient(ReadSome read) : read_(std::move(read)) {}

  // The bytes up to `end` and with it; what came, if it never comes.
  std::string ReadUntil(absl::string_view end) {
    size_t found = 0;
    while ((found = unread_.find(std::string(end))) == std::string::npos) {
      if (!ReadMore()) return std::exchange(unread_, "");
    }
    return Take(found + end.size());
  }
  // The next answer's head. Its body, too, unless it is a stream that the test reads by ReadChunk.
  HttpAnswer ReadHead() {
    HttpAnswer answer;
    const std::string head = ReadUntil("\r\n\r\n");
    for (const absl::string_view line : absl::StrSplit(head, "\r\n", absl::SkipEmpty())) {
      if (answer.status == 0) {
        if (!absl::StartsWith(line, "HTTP/1.1 ")) return answer;
        answer.status = std::atoi(std::string(line.substr(9, 3)).c_str());
        continue;
      }
      const std::pair<std::string, std::string> header =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      answer.headers[absl::AsciiStrToLower(header.first)] = header.second;
    }
    return answer;
  }
  // `has_body`: false for answers to HEAD.
  HttpAnswer ReadAnswer(bool has_body = true) {
    HttpAnswer answer = ReadHead();
    if (answer.status == 0 || !has_body || answer.status == 204 || answer.status == 100) {
      answer.whole = answer.status != 0;
      return answer;
    }
    const auto length = answer.headers.find("content-length");
    if (length != answer.headers.end()) {
      const size_t size = std::stoul(length->second);
      while (unread_.size() < size && ReadMore()) {
      }
      answer.whole = unread_.size() >= size;
      answer.body = Take(std::min(size, unread_.size()));
    } else if (answer.headers.contains("transfer-encoding")) {
      for (std::string chunk; !(chunk = ReadChunk()).empty();) answer.body += chunk;
      answer.whole = last_chunk_;
    } else {
      while (ReadMore()) {
      }
      answer.whole = true;
      answer.body = std::exchange(unread_, "");
    }
    return answer;
  }
  // The next chunk's bytes; empty: that was the last, or none came.
  std::string ReadChunk() {
    last_chunk_ = false;
    const std::string line = ReadUntil("\r\n");
    if (!absl::EndsWith(line, "\r\n")) return "";
    const size_t size = std::stoul(line, nullptr, 16);
    while (unread_.size() < size + 2 && ReadMore()) {
    }
    if (unread_.size() < size + 2) return "";
    const std::string chunk = Take(size + 2);
    last_chunk_ = size == 0;
    return chunk.substr(0, size);
  }
  // Whether nothing more comes.
  bool AtEnd() { return unread_.empty() && !ReadMore(); }

 private:
  bool ReadMore() {
    const std::string bytes = read_();
    unread_ += bytes;
    return !bytes.empty();
  }
  std::string Take(size_t size) {
    const std::string taken = unread_.substr(0, size);
    unread_.erase(0, size);
    return taken;
  }

  const ReadSome read_;
  std::string unread_;
  bool last_chunk_ = false;
};

}  // namespace baton
