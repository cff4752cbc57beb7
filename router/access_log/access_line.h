// The form of the access log's lines. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton {

// What the router did for one request, over all of its prompts and choices.
struct AccessWork {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // prompt tokens found in prefix caches
  uint64_t output_tokens = 0;
  uint32_t attempts = 0;                                // largest number of one prompt
  std::optional<absl::Duration> time_to_first_token{};  // none: no token was made
};

// One request that has ended. It never contains text of a prompt or of an answer.
struct AccessRecord {
  absl::Time ended{};       // by the wall clock
  std::string id{};         // empty: the request was refused before it got one
  std::string tenant{};     // empty: anonymous, or not known
  bool identified = false;  // the caller has shown a valid key or certificate
  std::string route{};      // "/v1/chat/completions", "/baton.v1.GenerationService/Generate"
  std::string status{};     // "200" for HTTP, "OK" for gRPC
  std::string error{};      // reason or code, such as "QUEUE_FULL"; empty: the request succeeded
  absl::Duration total{};
  std::optional<AccessWork> work{};  // none: the request was refused before its prompt was read
};

enum class AccessFormat { kText, kJson };

inline constexpr size_t kMaxAccessValueBytes = 128;

// `text` for a value of a line, in at most kMaxAccessValueBytes of printable ASCII without spaces,
// quotes and backslashes. All other characters are written as JSON does, "\u00fc". A value that was
// cut ends in "...".
std::string AccessValue(absl::string_view text);

// The line of `record`, with its newline; less than 2 KiB. `left_out`: lines before this one that
// could not be written; 0 is not shown.
//
//   2026-11-29T20:26:50.182Z access id=3f tenant=acme route=/v1/completions status=200
//   prompt_tokens=12 cached_tokens=0 output_tokens=60 ttft_ms=83.1 attempts=1 total_ms=812.0
//
// (in one line). JSON has the same names, beside those of every JSON line of the log.
std::string AccessLine(const AccessRecord& record, AccessFormat format, uint64_t left_out);

}  // namespace baton
