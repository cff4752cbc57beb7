#include "tests/simulation/decode_worker/local_prefill.h"

#include <algorithm>

#include "tests/simulation/sim_open.h"

namespace baton {

void LocalPrefill::Begin(SimAttemptId id) {
  core_.Work(sim_.random.Between(10, 2'000), [this, id] { ComputeChunk(id); });
}

void LocalPrefill::ComputeChunk(SimAttemptId id) {
  SimDecodeCall* call = table_.Find(id);
  if (call == nullptr || call->cancelled) return;
  if (engine_.MustWait(id)) return core_.Work(2'000, [this, id] { ComputeChunk(id); });
  if (!call->granted) TakeBlocks(*call);
  const int first = call->computed_tokens;
  SimRequest& right = *call->attempt.right;
  if (right.deadly_chunk >= 0 && first / kSimChunk == right.deadly_chunk) {
    right.kills[id.second] = {.computed = first, .outputs = OutputIndex(call->attempt)};
    return sim_.kill_worker(false, core_.id().index);
  }
  const auto tokens = static_cast<int>(call->attempt.token_ids.size());
  const int end = std::min(tokens, (first / kSimChunk + 1) * kSimChunk);
  if (end == tokens && StopsEngine(sim_, call->attempt, OutputIndex(call->attempt))) {
    return core_.StandStill([this, id] { ComputeChunk(id); });
  }
  const uint32_t number = call->attempt.key.choice();
  call->lacks_blocks =
      !engine_.ComputeChunk(call->attempt, number, call->held, {first, end}, call->forgers);
  if (call->lacks_blocks) return core_.Work(2'000, [this, id] { ComputeChunk(id); });
  call->computed_tokens = end;
  blocks_.Enter(call->held, call->attempt.token_ids, end, 0);
  blocks_.GiveBackUnread(call->held, end, tokens);
  if (auto scores = ScoresOf(call->attempt, first, end)) {
    internal::v1::DecodeResponse response;
    *response.mutable_prompt_logprobs() = *std::move(scores);
    table_.Tell(*call, response);
  }
  TellProgress(*call);
  if (end == tokens) return Finish(id);
  core_.Work(sim_.random.Between(200, 4'000), [this, id] { ComputeChunk(id); });
}

void LocalPrefill::TakeBlocks(SimDecodeCall& call) {
  const std::vector<int32_t>& ids = call.attempt.token_ids;
  SimHolding& held = call.held;
  const std::vector<int32_t> cached =
      call.attempt.scored ? std::vector<int32_t>() : blocks_.Cached(ids, {.computes = true});
  held.reservation.GiveUp(blocks_.UsedOf(cached, true));
  blocks_.TakeCached(held, cached);
  blocks_.TakeReserved(held, static_cast<int>(ids.size()), false);
  call.granted = true;
  call.computed_tokens = blocks_.TokensOf(cached);
  ++sim_.coverage.local_prefills;
  TellProgress(call);
}

void LocalPrefill::TellProgress(const SimDecodeCall& call) {
  internal::v1::DecodeResponse response;
  response.mutable_prefill_progress()->set_computed_tokens(
      static_cast<uint32_t>(call.computed_tokens));
  table_.Tell(call, response);
}

void LocalPrefill::Finish(SimAttemptId id) {
  SimDecodeCall& call = *table_.Find(id);
  const int output = OutputIndex(call.attempt);
  if (IsDeadly(call.attempt, output)) {
    call.attempt.right->kills[id.second] = {.computed = call.computed_tokens, .outputs = output};
    return sim_.kill_worker(false, core_.id().index);
  }
  call.committed = true;
  engine_.BeginDecoding(id);
}

}  // namespace baton
