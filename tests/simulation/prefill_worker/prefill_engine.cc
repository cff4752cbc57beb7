#include "tests/simulation/prefill_worker/prefill_engine.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::PrefillResponse;

namespace {

// Where the chunk ends that begins with token `first`.
int ChunkEnd(const SimPrefillCall& call, int first) {
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  return std::min(tokens, (first / kSimChunk + 1) * kSimChunk);
}

// The next chunk is the last one: the output behind the prompt comes of it.
bool ComputesOutput(const SimPrefillCall& call) {
  return ChunkEnd(call, call.computed_tokens) == static_cast<int>(call.attempt.token_ids.size());
}

}  // namespace

PrefillEngine::PrefillEngine(Sim& sim, WorkerCore& core, PrefillBlocks& blocks,
                             PrefillCallTable& table, PrefillPushes& pushes,
                             std::function<void(SimAttemptId)> prompt_done)
    : sim_(sim),
      core_(core),
      blocks_(blocks),
      table_(table),
      pushes_(pushes),
      prompt_done_(std::move(prompt_done)) {}

void PrefillEngine::Begin(SimAttemptId id) {
  core_.Work(sim_.random.Between(0, 2'000), [this, id] {
    const SimPrefillCall* begun = table_.Find(id);
    if (begun == nullptr) return;
    PrefillResponse response;
    response.mutable_started()->set_cached_tokens(static_cast<uint32_t>(begun->cached_tokens));
    table_.Tell(*begun, response);
    pushes_.Deliver(id, SendEvent::Begin{});
    Compute(id, 0);
  });
}

// One sequence may have to be alone in the batch.
bool PrefillEngine::MustWait(SimAttemptId id) const {
  for (const auto& [other, call] : table_.calls()) {
    if (call.engine_stopped || call.lacks_blocks || !call.attempt.isolate) continue;
    return other != id;
  }
  return false;
}

// One layer of the next chunk; what was computed earlier is announced with the first.
void PrefillEngine::Compute(SimAttemptId id, int layer) {
  SimPrefillCall* call = table_.Find(id);
  if (call == nullptr || call->engine_stopped) return;
  call->engine_stopped = table_.Forgotten(call->attempt);
  if (call->engine_stopped) return;
  if (layer == 0 && MustWait(id)) {
    return core_.Work(2'000, [this, id] { Compute(id, 0); });
  }
  const int deadly = call->attempt.right->deadly_chunk;
  if (deadly >= 0 && call->computed_tokens / kSimChunk == deadly) {
    call->attempt.right->kills[id.second] = {.computed = call->computed_tokens,
                                             .outputs = OutputIndex(call->attempt)};
    return sim_.kill_worker(true, core_.id().index);
  }
  if (ComputesOutput(*call) && StopsEngine(sim_, call->attempt, OutputIndex(call->attempt))) {
    return core_.StandStill([this, id, layer] { Compute(id, layer); });
  }
  if (layer == 0) {
    const int first = call->computed_tokens;
    call->lacks_blocks = !blocks_.TakeForChunk(call->held, first, ChunkEnd(*call, first));
    if (call->lacks_blocks) return core_.Work(2'000, [this, id] { Compute(id, 0); });
    CheckWindow(*call);
  }
  ComputeLayer(id, *call, layer);
  if (table_.Find(id) == nullptr) return;
  const int next = (layer + 1) % blocks_.layout().layers;
  if (next == 0) ChunkDone(id);
  call = table_.Find(id);
  if (call == nullptr || call->computed) return;
  core_.Work(sim_.random.Between(50, 1'500), [this, id, next] { Compute(id, next); });
}

void PrefillEngine::ComputeLayer(SimAttemptId id, SimPrefillCall& call, int layer) {
  const int first = call.computed_tokens;
  const int end = ChunkEnd(call, first);
  const bool pushes = pushes_.Has(id);
  if (pushes && layer == 0 && first == call.cached_tokens && first > 0) {
    for (int cached = 0; cached < blocks_.layout().layers; ++cached) {
      TellReady(call, cached, 0, first);
    }
  }
  call.attempt.content->Write(call.held.memory, layer, first, end);
  MaybeForge(call, layer, first, end);
  blocks_.Written(call.held, layer, first, end);
  if (!pushes) return;
  MaybeRot(call, layer, first);
  TellReady(call, layer, first, end);
  // As where layers are staged and there is no room for the next before this one is sent.
  if (id.second % 2 == 0) pushes_.Deliver(id, SendEvent::Flush{});
}

// I1: what the next chunk sees in the layer with a window is there, where no byte has changed since
// it was written. Most of it is not handed off, so that no receiver looks at it.
void PrefillEngine::CheckWindow(const SimPrefillCall& call) {
  const int end = call.computed_tokens;
  const int first = SimFirstSeen(kSimWindowLayer, end);
  for (const TokenRange page : PagesOf({first - first % kKvPageTokens, end})) {
    const TokenRange seen{std::max(page.begin, first), page.end};
    const bool is_there =
        call.held.memory.block_table[call.held.EntryOf(kSimWindowLayer, page.begin)] != kNoBlock;
    if (is_there && !blocks_.IsAsWritten(call.held, kSimWindowLayer, page)) continue;
    CheckRows(sim_, call.attempt, call.attempt.key.choice(), call.held.memory,
              {kSimWindowLayer, seen}, "when a prompt's next chunk reads it");
  }
}

// In a layer with a window, tokens before the ones that are handed off may no longer have a block.
void PrefillEngine::TellReady(const SimPrefillCall& call, int layer, int first, int end) {
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  first = std::max(first, FirstHandedOff(blocks_.layout(), layer, tokens));
  if (first < end) {
    pushes_.Deliver(call.attempt.id(), blocks_.Ready(call.held, layer, first, end));
  }
}

// Before its pages have a CRC, so that only an audit can tell.
void PrefillEngine::MaybeForge(const SimPrefillCall& call, int layer, int first, int end) {
  if (!core_.forging() || !sim_.random.Chance(500)) return;
  sim_.forged = true;
  call.attempt.content->Forge(call.held.memory, layer, first, end, core_.id().index);
}

// A byte changes under the sender's hands, for a while.
void PrefillEngine::MaybeRot(const SimPrefillCall& call, int layer, int token) {
  if (!sim_.Strikes(Fault::kStaleSource)) return;
  uint8_t* byte = call.held.memory.Row(layer, KvLayout::kValues, token);
  *byte ^= 0x10;
  sim_.queue.After(sim_.random.Between(200, 300'000), [this, byte, life = core_.process().life()] {
    if (life == core_.process().life()) *byte ^= 0x10;
  });
}

void PrefillEngine::ChunkDone(SimAttemptId id) {
  SimPrefillCall& call = *table_.Find(id);
  const int first = call.computed_tokens;
  const int end = ChunkEnd(call, first);
  call.computed_tokens = end;
  blocks_.Enter(call.held, call.attempt.token_ids, end);
  blocks_.GiveBackUnread(call.held, end, static_cast<int>(call.attempt.token_ids.size()));
  if (auto scores = ScoresOf(call.attempt, first, end)) {
    PrefillResponse scored;
    *scored.mutable_prompt_logprobs() = *std::move(scores);
    table_.Tell(call, scored);
  }
  PrefillResponse response;
  response.mutable_progress()->set_computed_tokens(static_cast<uint32_t>(end));
  table_.Tell(call, response);
  const bool computed = end == static_cast<int>(call.attempt.token_ids.size());
  call.computed = call.engine_stopped = computed;
  pushes_.Deliver(id, SendEvent::ChunkReady{end});
  if (!computed) return;
  core_.process().After(sim_.random.Between(10, 500), [this, id] { prompt_done_(id); });
}

}  // namespace baton
