// The events and actions of a request's state machine. Plain values without a clock, socket or
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"
#include "baton/v1/generation.pb.h"
#include "common/rpc/trace_context.h"

namespace baton {

// A request with every default fixed: from here on it is deterministic.
struct RequestSpec {
  uint64_t id_high = 0;  // with id_low 128 random bits: the key of all work for the request
  uint64_t id_low = 0;
  std::string client_request_id;  // echoed only
  std::vector<uint32_t> prompt_token_ids;
  v1::SamplingParams sampling;
  std::string cache_salt;
  int32_t priority = 0;  // a lower number is served sooner
  // The tenants of one priority share the workers, and the users of a tenant what it gets; the
  // empty name is one too.
  std::string tenant;
  std::string user;
  v1::Speculative speculative = v1::SPECULATIVE_UNSPECIFIED;
  // The compiled grammar that every choice is held to (SequenceSpec.grammar); null: any text.
  std::shared_ptr<const std::string> grammar;
  bool stream = false;
  bool return_token_ids = false;
  bool echo = false;  // each choice's text begins with the prompt's
  // max_tokens was 0, and sampling.max_tokens is 1: the workers sample a token, which is dropped.
  bool no_output = false;
  bool chat = false;                          // the prompt was a conversation
  std::shared_ptr<const TraceContext> trace;  // null: the request is not traced
  absl::Time received;
  absl::Time deadline;  // infinite: the client gave none
};

// A pair of workers between which hand-offs of the request have failed too often (link_tries.h).
struct SpentLink {
  uint64_t prefill = 0;  // ids of workers
  uint64_t decode = 0;
  absl::Time rests_until{};  // when it may be tried again if nothing else is possible
};

// The needs of a request, for placement.
struct WorkerNeeds {
  bool decode = true;    // false: one token remains, which the prefill worker samples
  uint32_t choices = 1;  // choices that are computed together
  uint32_t prompt_tokens = 0;
  bool whole_prompt = false;      // all of it is computed, whatever the worker holds of it
  uint32_t max_total_tokens = 0;  // prompt and output
  uint32_t failed_hand_offs = 0;  // failed hand-offs in a row; placement fills it in
  // An earlier attempt broke: the request was served before and waits for a worker as long as it
  // may.
  bool resumed = false;
  // The attempt opens alone: only workers that wait for no prompt of this router will do, and they
  // get nothing else from it until the prompt is computed.
  bool alone = false;
  // Ids of the workers that broke earlier attempts: taken only if there is no other worker.
  std::vector<uint64_t> avoid{};
  std::vector<SpentLink> spent_links{};
  // The model whose tokens are continued, as WorkersChosen has it: no other may. Empty: there are
  // none yet.
  std::string model{};
  // The decode worker that may hold pages which an earlier attempt pushed; 0: none does.
  uint64_t prefer_decode = 0;
  // A hedged attempt names the attempt whose place it may take, which has its workers and waits
  // there. Only a decode worker that is not to be avoided and has room now will do. 0: it is no
  // hedged attempt.
  uint32_t beside = 0;
};

struct WorkerName {
  uint64_t id = 0;  // the registry's, one for each incarnation
  std::string name;
};

// Events. `attempt` fences: an event of an attempt that does not run is ignored. Several attempts
// may run at once, for different choices; no two have the same number.
struct WorkersChosen {
  uint32_t attempt = 0;
  std::optional<WorkerName> prefill;  // none: the decode worker computes the prompt
  std::optional<WorkerName> decode;   // none: one token remains, which the prefill worker samples
  std::string decode_address;         // host:port to which the push goes
  internal::v1::ModelIdentity decode_identity;
  std::string model;               // the identity of what both serve, serialised
  std::string capability;          // 16 random bytes
  internal::v1::Pusher pusher;     // the prefill worker, which may push
  std::string system_fingerprint;  // names model, numerics and version
  std::string prefill_numerics;    // those of the prefill worker
  std::string decode_numerics;     // those of the decode worker
};
// The answer to needs with `beside`: there is no such worker.
struct NoneElsewhere {
  uint32_t attempt = 0;
};
struct Abandoned {  // the router gives the request up: no worker in time, shutdown, standstills
  absl::Status status;
};
struct DecodeMessage {
  uint32_t attempt = 0;
  internal::v1::DecodeResponse message;
};
struct DecodeEnded {  // the call has ended, or its worker was given up
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
struct ClientCaughtUp {};  // the client's buffer is well below its bound again
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
struct OpenDecode {  // answered by DecodeMessage, in the end by DecodeEnded
  uint32_t attempt = 0;
  uint64_t worker_id = 0;
  internal::v1::DecodeRequest start;
};
struct StartPrefill {  // answered by PrefillMessage, in the end by PrefillEnded
  uint32_t attempt = 0;
  uint64_t worker_id = 0;
  internal::v1::PrefillRequest request;
};
struct SendToDecode {  // stops a choice, or reports whether the client is behind
  uint32_t attempt = 0;
  internal::v1::DecodeRequest message;
};
struct CloseDecode {  // the router has nothing more to say; the worker ends the call by itself
  uint32_t attempt = 0;
};
// `why`: the fault of the worker for which the call is given up; OK: none.
struct CancelDecode {
  uint32_t attempt = 0;
  absl::Status why = absl::OkStatus();
};
struct CancelPrefill {
  uint32_t attempt = 0;
  absl::Status why = absl::OkStatus();
};
struct Deliver {
  v1::GenerateResponse response;
};
struct Complete {  // the request ends: the client gets the completes of all choices, then OK
  std::vector<v1::GenerateResponse> responses;
};
struct Fail {  // the request ends with an error
  absl::Status status;
};
struct SetTimer {  // replaces the timer that was set before
  absl::Time at;
};

using RequestAction =
    std::variant<ChooseWorkers, OpenDecode, StartPrefill, SendToDecode, CloseDecode, CancelDecode,
                 CancelPrefill, Deliver, Complete, Fail, SetTimer>;
using RequestActions = std::vector<RequestAction>;

}  // namespace baton
