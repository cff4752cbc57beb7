// What a request's state machine is told, and what it asks for. Plain values: no clock, socket or
// thread behind them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/v1/generation.pb.h"

namespace baton {

// A request with every default fixed: from here on it is deterministic.
struct RequestSpec {
  uint64_t id_high = 0;  // 128 random bits: the key of all work for it
  uint64_t id_low = 0;
  std::string client_request_id;  // echoed only
  std::vector<uint32_t> prompt_token_ids;
  v1::SamplingParams sampling;
  std::string cache_salt;
  int32_t priority = 0;  // lower is served sooner
  std::string tenant;    // shares with others of its priority; the empty one is one too
  bool stream = false;
  bool return_token_ids = false;
  absl::Time received;
  absl::Time deadline;  // the client's, or the router's own limit
};

// What a request asks of placement.
struct WorkerNeeds {
  bool decode = true;    // false: one token remains, which the prefill worker samples
  uint32_t choices = 1;  // that are computed together
  uint32_t prompt_tokens = 0;
  uint32_t max_total_tokens = 0;  // prompt and output
  uint32_t failed_hand_offs = 0;  // in a row, filled in by who places it
  // Of a request whose earlier attempts broke:
  bool resumed = false;           // it was served before: it waits for a worker as long as it may
  std::vector<uint64_t> avoid{};  // workers that broke them, taken only where there is no other
  uint64_t prefer_decode = 0;     // may hold pages that an earlier attempt pushed; 0: none
  // The attempt whose place this one may take, which has its workers and waits there: only a decode
  // worker that is not to be avoided and has room now. 0: there is none.
  uint32_t beside = 0;
};

struct WorkerName {
  uint64_t id = 0;  // the registry's, one for each incarnation
  std::string name;
};

// Events. `attempt` fences: an event of an attempt that does not run is ignored. Several may run at
// once, of different choices; their numbers are unlike.
struct WorkersChosen {
  uint32_t attempt = 0;
  std::optional<WorkerName> prefill;  // none: prefilled on the decode worker
  std::optional<WorkerName> decode;   // none: one token remains
  std::string decode_address;         // where the push goes, as advertised
  internal::v1::ModelIdentity decode_identity;
  std::string capability;          // 16 random bytes
  std::string system_fingerprint;  // of model, numerics and version
  std::string prefill_numerics;    // of whoever computes the prompt
  std::string decode_numerics;
};
// To needs with `beside`: there is no such worker.
struct NoneElsewhere {
  uint32_t attempt = 0;
};
struct Abandoned {  // the router gives the request up: no worker in time, shutdown
  absl::Status status;
};
struct DecodeMessage {
  uint32_t attempt = 0;
  internal::v1::DecodeResponse message;
};
struct DecodeEnded {  // also: the worker was given up
  uint32_t attempt = 0;
  absl::Status status;
};
struct PrefillMessage {
  uint32_t attempt = 0;
  internal::v1::PrefillResponse message;
};
struct PrefillEnded {
  uint32_t attempt = 0;
  absl::Status status;
};
struct ClientCancelled {};
struct ClientBehind {};    // the client's buffer is above its bound
struct ClientCaughtUp {};  // and well below it again
struct TimerFired {};      // the time that SetTimer named has come

using RequestEvent =
    std::variant<WorkersChosen, Abandoned, DecodeMessage, DecodeEnded, PrefillMessage, PrefillEnded,
                 ClientCancelled, ClientBehind, ClientCaughtUp, TimerFired, NoneElsewhere>;

// Actions, in the order in which they are to be done.
// Answered by WorkersChosen or Abandoned; with `beside` at once, by WorkersChosen or NoneElsewhere.
struct ChooseWorkers {
  uint32_t attempt = 0;
  WorkerNeeds needs;
};
struct OpenDecode {  // answered by DecodeMessage, at last DecodeEnded
  uint32_t attempt = 0;
  uint64_t worker_id = 0;
  internal::v1::DecodeRequest start;
};
struct StartPrefill {  // answered by PrefillMessage, at last PrefillEnded
  uint32_t attempt = 0;
  uint64_t worker_id = 0;
  internal::v1::PrefillRequest request;
};
struct SendToDecode {  // stop or flow
  uint32_t attempt = 0;
  internal::v1::DecodeRequest message;
};
struct CloseDecode {  // nothing more to say; the worker ends the call by itself
  uint32_t attempt = 0;
};
struct CancelDecode {
  uint32_t attempt = 0;
};
struct CancelPrefill {
  uint32_t attempt = 0;
};
struct Deliver {
  v1::GenerateResponse response;
};
struct Complete {  // terminal: the completes of all choices, then OK
  std::vector<v1::GenerateResponse> responses;
};
struct Fail {  // terminal
  absl::Status status;
};
struct SetTimer {  // replaces the timer before
  absl::Time at;
};

using RequestAction =
    std::variant<ChooseWorkers, OpenDecode, StartPrefill, SendToDecode, CloseDecode, CancelDecode,
                 CancelPrefill, Deliver, Complete, Fail, SetTimer>;
using RequestActions = std::vector<RequestAction>;

}  // namespace baton
