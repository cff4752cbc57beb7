// Traces of requests: when they came, how long they were, and what their prompts share.
//
// Three formats, told apart by the first line that is neither empty nor a comment ('#'):
// - Mooncake's JSONL (FAST'25 artifact): {"timestamp": ms, "input_length": tokens,
//   "output_length": tokens, "hash_ids": [...]}; other fields are ignored, hash_ids may be left
//   out. A hash id stands for 512 tokens, the last of a request for the rest of its prompt.
// - Azure's CSV (AzurePublicDataset, LLM inference traces): "TIMESTAMP,ContextTokens,
//   GeneratedTokens" and lines such as "2023-11-16 18:15:46.6805900,374,44".
// - lines of 'prompt tokens, output tokens, page ids', the ids parted by spaces, each for 8 tokens.
//   They have no times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

struct TraceOptions {
  double time_scale = 1;    // on the times between requests; 0.5: twice as fast
  double input_scale = 1;   // on the lengths of prompts, and on the tokens that an id stands for
  double output_scale = 1;  // on the lengths of answers
  int max_input_tokens = 1 << 20;   // longer prompts are cut to this
  int max_output_tokens = 1 << 20;  // so are longer answers
  absl::Duration start =
      absl::ZeroDuration();  // requests before this time of the trace are left out
  int max_requests = 0;      // most requests; later ones are left out; 0: no limit
};

struct TraceRequest {
  absl::Duration at = absl::ZeroDuration();  // since the first that is not left out, scaled
  int input_tokens = 0;                      // scaled and cut, at least 1
  int output_tokens = 0;                     // scaled and cut, at least 1
  std::vector<uint64_t> pages{};             // ids of what the prompt begins with
};

struct Trace {
  std::vector<TraceRequest> requests;  // in the order of their times
  int page_tokens = 8;                 // tokens that an id stands for, scaled
  bool has_times = false;
};

// Reads the file. An error names the path and the line, and says what the line must be.
absl::StatusOr<Trace> ReadTrace(const std::string& path, const TraceOptions& options);

}  // namespace baton
