// Everything that can happen to a request in the router, in any order: a byte of the input is an
// event, those after it its details. Workers say right and wrong things, or bytes that are a message
// by chance, in calls that are open or not; the client leaves, falls behind and catches up; time
// passes.
#include <string>
#include <utility>

#include "google/protobuf/stubs/logging.h"

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/request_harness.h"

namespace baton {
namespace {

using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillResponse;

RequestSpec MakeSpec(FuzzInput& input) {
  const auto choices = static_cast<uint32_t>(1 + input.Below(3));
  const auto max_tokens = static_cast<uint32_t>(1 + input.Below(6));
  const uint8_t flags = input.Byte();
  RequestSpec spec = MachineHarness::Spec(max_tokens);
  spec.sampling.set_n(choices);
  spec.stream = (flags & 1) == 0;
  spec.return_token_ids = (flags & 2) == 0;
  if ((flags & 4) != 0) spec.sampling.add_stop("dg");
  if ((flags & 8) != 0) spec.sampling.set_prompt_logprobs(1);
  if ((flags & 16) != 0) spec.sampling.set_logprobs(0);
  spec.sampling.set_include_stop_str_in_output((flags & 32) != 0);
  spec.echo = (flags & 64) != 0;
  spec.no_output = (flags & 128) != 0 && max_tokens == 1;
  return spec;
}

// A right token, or one of which something is wrong.
OutputToken Damaged(OutputToken token, FuzzInput& input) {
  switch (input.Byte()) {
    case 255:
      token.set_output_index(input.Byte());
      break;
    case 254:
      token.set_choice(input.Byte());
      break;
    case 253:
      token.mutable_token()->set_token_id(static_cast<uint32_t>(input.Below(40)));
      break;
    case 252:
      token.set_ends_sequence(!token.ends_sequence());
      token.set_finish_reason(static_cast<v1::FinishReason>(input.Below(5)));
      break;
    case 251:
      token.mutable_token()->set_logprob(-1);
      break;
    case 250:
    case 249:
    case 248:
      // The text's end.
      token.mutable_token()->set_token_id(26);
      token.set_ends_sequence(true);
      token.set_finish_reason(v1::FINISH_REASON_STOP);
      break;
    default:
      break;
  }
  return token;
}

internal::v1::PromptLogprobs LogprobsOfPrompt(FuzzInput& input) {
  internal::v1::PromptLogprobs message;
  const int first = 1 + input.Below(4) % 3, count = input.Below(8) == 7 ? 3 : 3 - first;
  message.set_first_token(static_cast<uint32_t>(first));
  for (int i = 0; i < count; ++i) {
    message.add_logprobs(-1);
    message.add_top_token_ids(static_cast<uint32_t>(input.Below(32)));
    message.add_top_logprobs(-1);
  }
  return message;
}

DecodeResponse FromDecode(RequestHarness& harness, uint32_t attempt, FuzzInput& input) {
  DecodeResponse message;
  switch (input.Below(12)) {
    case 0:
    case 1:
      message.mutable_accepted()->set_cached_tokens(input.Byte() / 16);
      break;
    case 2:
      message.mutable_committed()->set_exact(input.Below(2) == 0);
      break;
    case 3:
      message.mutable_finished()->set_choice(static_cast<uint32_t>(input.Below(4)));
      message.mutable_finished()->set_exact(input.Below(2) == 0);
      break;
    case 4:
      message.mutable_preempted()->set_choice(static_cast<uint32_t>(input.Below(4)));
      break;
    case 5:
      message.mutable_prefill_progress()->set_computed_tokens(input.Byte());
      break;
    case 6:
      *message.mutable_prompt_logprobs() = LogprobsOfPrompt(input);
      break;
    case 7:
      if (!message.ParseFromString(input.Bytes(input.Byte()))) message.Clear();
      break;
    default:
      for (int count = input.Below(5); count > 0; --count) {
        const auto choice = static_cast<uint32_t>(input.Below(3));
        *message.mutable_tokens()->add_tokens() =
            Damaged(harness.NextFromDecode(attempt, choice), input);
      }
  }
  return message;
}

PrefillResponse FromPrefill(const RequestHarness& harness, uint32_t attempt, FuzzInput& input) {
  PrefillResponse message;
  switch (input.Below(8)) {
    case 0:
      message.mutable_started()->set_cached_tokens(input.Byte());
      break;
    case 1:
      message.mutable_finished()->set_bytes_sent(input.Byte());
      break;
    case 2:
      message.mutable_progress()->set_computed_tokens(input.Byte());
      break;
    case 3:
      *message.mutable_prompt_logprobs() = LogprobsOfPrompt(input);
      break;
    case 4:
      if (!message.ParseFromString(input.Bytes(input.Byte()))) message.Clear();
      break;
    default:
      *message.mutable_first_token() =
          Damaged(harness.NextFromPrefill(attempt, static_cast<uint32_t>(input.Below(3))), input);
  }
  return message;
}

absl::Status EndOfCall(FuzzInput& input) {
  switch (input.Below(8)) {
    case 0:
      return absl::OkStatus();
    case 1:
      return absl::ResourceExhaustedError("full");
    case 2:
      return KvWrong();
    case 3:
      return WithErrorInfo(absl::AbortedError("the push broke"),
                           {kReasonKvTransferFailed, kStageTransfer, "d", {}});
    case 4:
      return absl::Status(static_cast<absl::StatusCode>(input.Below(17)), "x");
    default:
      return kKilled;
  }
}

void OneEvent(RequestHarness& harness, FuzzInput& input) {
  const int kind = input.Below(24);
  // The last attempt, or one before it, or one that was never begun.
  const auto back = static_cast<uint32_t>(std::max(0, input.Below(16) - 10));
  const uint32_t last = harness.last_attempt();
  const uint32_t attempt = back == 5 ? last + 1 : last - std::min(back, last - 1);
  if (kind < 9) return harness.Do(DecodeMessage{attempt, FromDecode(harness, attempt, input)});
  if (kind < 14) return harness.Do(PrefillMessage{attempt, FromPrefill(harness, attempt, input)});
  switch (kind) {
    case 14:
      return harness.Do(DecodeEnded{attempt, EndOfCall(input)});
    case 15:
      return harness.Do(PrefillEnded{attempt, EndOfCall(input)});
    case 16:
      return harness.Do(ClientBehind{});
    case 17:
      return harness.Do(ClientCaughtUp{});
    case 18:
      return input.Byte() == 255 ? harness.ClientLeaves() : harness.Do(TimerFired{});
    case 19:
    case 20: {
      const int unit = input.Below(3);  // 1 ms, 100 ms, 10 s
      return harness.Pass(input.Byte() * absl::Milliseconds(unit == 0   ? 1
                                                            : unit == 1 ? 100
                                                                        : 10'000));
    }
    default: {
      const uint8_t how = input.Byte();
      if (!harness.waits_for_workers()) return;
      if (how == 255) return harness.ChooseNone();
      return harness.Choose(2 + how % 3, (how & 4) != 0, how < 192 ? "cpu" : "cuda");
    }
  }
}

void Run(FuzzInput input) {
  const int how = input.Below(4);
  RequestHarness harness(MakeSpec(input));
  // Most inputs give the first attempt its workers, so that the rest is worth something.
  if (input.Byte() % 8 != 0) harness.Choose(2, false, "cpu");
  while (!input.empty() && !harness.done()) OneEvent(harness, input);
  if (!harness.done()) {
    if (how == 0) harness.AllWorkersDie();
    if (how == 1) harness.NothingHappens();
    if (how == 2) harness.ClientLeaves();
    if (how == 3) harness.RouterGivesUp();
  }
  harness.CheckEnd();
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer silencer;
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
