// What is kept of one request for people to look at: counts and times, never a text or a token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/prefill.pb.h"
#include "baton/v1/generation.pb.h"

namespace baton {

enum class RequestStage { kQueued, kPrefill, kTransfer, kDecode, kDone, kFailed, kCancelled };
const char* RequestStageName(RequestStage stage);

// Code, reason and stage of an error: its message may have a client's text.
std::string FailureText(const absl::Status& status);

// The prompt's tokens before `tokens` were computed, as far as the router knows.
struct ChunkSeen {
  uint32_t tokens = 0;
  absl::Duration at{};  // since the request was received
};

// How long a decode worker took for an attempt. Of its choices the longest count.
struct DecodeAccount {
  absl::Duration queue{}, decode{}, prefill_queue{}, prefill{};
};

// One try at the request. Durations without a word are times since the request was received, on the
// router's clock.
struct TryRecord {
  uint32_t number = 0;  // number of the attempt
  absl::Duration begun{};
  absl::Duration queued{};  // time that it waited for its workers
  bool local_prefill = false;
  std::string prefill_worker{};
  std::string decode_worker{};
  std::optional<absl::Duration> accepted{};  // by the decode worker
  std::optional<absl::Duration> started{};   // the prefill worker has begun
  std::optional<absl::Duration> first_token{};
  std::optional<absl::Duration> committed{};
  std::optional<absl::Duration> ended{};
  std::string failure{};            // why it ended; empty: it did not fail
  std::vector<ChunkSeen> chunks{};  // at most kMaxChunksSeen
  // The workers' accounts, where they came.
  std::optional<internal::v1::PrefillFinished> prefill{};
  std::optional<DecodeAccount> decode{};
};
inline constexpr size_t kMaxChunksSeen = 256;

struct RequestRecord {
  std::string id{};     // the client's, or a drawn one
  double received = 0;  // Unix seconds
  RequestStage stage = RequestStage::kQueued;
  absl::Duration stage_since{};  // since the request was received
  absl::Duration age{};          // the same of its end, or of when this was read
  uint32_t prompt_tokens = 0;
  std::optional<uint32_t> cached_tokens{};
  size_t output_tokens = 0;
  // The last try's workers by their own names; empty: none.
  std::string prefill_worker{};
  std::string decode_worker{};
  std::string finish{};  // stop or length; empty: it has not ended so
  std::string error{};   // FailureText; empty: it has not failed
  v1::RequestTimings timings{};
  std::vector<TryRecord> tries{};  // at most RecordedRequest::kMaxTries

  bool ended() const { return stage >= RequestStage::kDone; }
};

}  // namespace baton
