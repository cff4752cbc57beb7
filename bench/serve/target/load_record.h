// What the load generator saw of one request: its times, from which every figure follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/base/clock.h"

namespace baton {

// The steady clock in whole nanoseconds. All times of records are such; only differences mean
// something.
inline int64_t SteadyNanoseconds() {
  return absl::ToInt64Nanoseconds(SteadyNow() - absl::UnixEpoch());
}

enum class RequestOutcome {
  kCompleted,  // the answer came to its end
  kRefused,    // RESOURCE_EXHAUSTED, or HTTP's 429, before the first token
  kFailed,     // ended otherwise, by its deadline too
  kCut,        // a stream of a concurrency that the end of the load ended
};

// A message of the answer that had tokens.
struct TokenMessage {
  int64_t at_ns = 0;
  uint32_t tokens = 0;
};

// The source of a message's number of tokens.
enum class TokensTold {
  kIds,       // the messages, by their token ids
  kUsage,     // the messages, by a running usage
  kSpread,    // only the usage at the end; its tokens are spread evenly over the messages
  kMessages,  // nothing; each message counts as one token
};

// The stages of an answer that a server may report, in the order of kStageNames.
inline constexpr std::array kStageNames = {"queue",       "prefill_queue",       "prefill",
                                           "kv_transfer", "exposed_kv_transfer", "decode_queue",
                                           "decode",      "server_ttft",         "server_total"};
inline constexpr size_t kStages = kStageNames.size();

struct LoadRecord {
  size_t load = 0;          // index of its class
  uint64_t id = 0;          // counts the requests of a run
  int64_t intended_ns = 0;  // when it was due
  int64_t sent_ns = 0;      // when the generator began to send it
  int64_t end_ns = 0;
  std::vector<TokenMessage> messages{};
  uint64_t asked_input_tokens = 0, asked_output_tokens = 0;
  uint64_t input_tokens = 0;  // as the server counts the prompt, else as it was asked
  TokensTold count = TokensTold::kIds;
  RequestOutcome outcome = RequestOutcome::kFailed;
  std::string kind{};   // a refusal's or failure's status code, or "HTTP 500"
  std::string error{};  // the message with it
  bool cut = false;     // the end of the load cancelled it
  uint32_t attempts = 1;
  bool local_prefill = false;
  std::array<std::optional<int64_t>, kStages> stages_ns{};

  uint64_t output_tokens() const {
    uint64_t sum = 0;
    for (const TokenMessage& message : messages) sum += message.tokens;
    return sum;
  }
};

}  // namespace baton
