// The engine of a simulated decode worker: prompts that are computed here, steps, and what happens
// when there are no blocks for one.
#include <algorithm>
#include <utility>

#include "tests/simulation/decode_sim.h"
#include "tests/simulation/sim_open.h"

namespace baton {

namespace {

constexpr int kChunk = 64;

}  // namespace

WorkerCore::Load DecodeSim::Load() const {
  WorkerCore::Load load;
  for (const auto& [key, call] : calls_) {
    const bool computes = call.committed || (call.local && call.accepted);
    if (computes && !call.released && !call.paused && !call.preempted) ++load.runnable;
    if (computes && !call.released) ++load.running;
  }
  load.waiting = static_cast<uint32_t>(waiting_.size());
  load.free_blocks = static_cast<uint32_t>(pool_->available_blocks());
  return load;
}

// One sequence may have to be alone in the batch.
bool DecodeSim::MustWait(Key key) const {
  for (const auto& [other, call] : calls_) {
    const bool runs = (call.committed || (call.local && call.granted)) && !call.released &&
                      !call.paused && !call.preempted;
    if (runs && call.attempt.isolate) return other != key;
  }
  return false;
}

// The next chunk of a prompt that no prefill worker computes.
void DecodeSim::ComputeChunk(Key key) {
  Call* call = Find(key);
  if (call == nullptr || call->cancelled) return;
  if (MustWait(key)) return core_.Work(2'000, [this, key] { ComputeChunk(key); });
  const std::vector<int32_t>& ids = call->attempt.token_ids;
  const auto tokens = static_cast<int>(ids.size());
  if (!call->granted) {
    TakeCached(*call, prefix_cache_->Find(ids, ""));
    const auto needed = static_cast<size_t>(layout_.BlocksFor(tokens));
    while (call->blocks.size() < needed) TakeOwn(*call, call->promise.Take());
    call->granted = true;
    call->computed_tokens = static_cast<int>(call->shared_blocks) * layout_.block_size;
    ++sim_.coverage.local_prefills;
  }
  const int first = call->computed_tokens;
  if (call->attempt.right->deadly_chunk >= 0 &&
      first / kChunk == call->attempt.right->deadly_chunk) {
    ++call->attempt.right->kills;
    return sim_.kill_worker(false, index_);
  }
  const int end = std::min(tokens, (first / kChunk + 1) * kChunk);
  for (int layer = 0; layer < layout_.layers; ++layer) {
    call->attempt.content->Write(call->memory, layer, first, end);
  }
  call->computed_tokens = end;
  internal::v1::DecodeResponse response;
  response.mutable_prefill_progress()->set_computed_tokens(static_cast<uint32_t>(end));
  Tell(*call, response);
  if (end < tokens) {
    return core_.Work(sim_.random.Between(200, 4'000), [this, key] { ComputeChunk(key); });
  }
  if (OutputIndex(call->attempt) == call->attempt.right->deadly_output) {
    ++call->attempt.right->kills;
    return sim_.kill_worker(false, index_);
  }
  call->committed = true;
  TellToken(*call, tokens);
  Schedule(key);
}

void DecodeSim::TellToken(Call& call, int tokens) {
  internal::v1::DecodeResponse response;
  *response.mutable_tokens()->add_tokens() = TokenAfter(call.attempt, tokens);
  Tell(call, response);
}

void DecodeSim::Schedule(Key key) {
  Call* call = Find(key);
  if (call == nullptr || !call->committed || call->stepping || call->paused || call->preempted ||
      call->cancelled || call->released) {
    return;
  }
  call->stepping = true;
  core_.Work(sim_.random.Between(500, 4'000), [this, key] { Step(key); });
}

// One step of the sequence: the last token's own KV, then the next token.
void DecodeSim::Step(Key key) {
  Call* call = Find(key);
  if (call == nullptr) return;
  call->stepping = false;
  if (call->released || call->cancelled || call->paused || call->preempted) return;
  if (MustWait(key)) return Schedule(key);
  const int tokens = static_cast<int>(call->attempt.token_ids.size()) + call->decoded_tokens;
  if (TokenAfter(call->attempt, tokens).ends_sequence()) {
    CheckContent(*call, tokens, "at its end");
    return Finish(key);
  }
  const int next = tokens + 1 - call->attempt.prompt_length;
  if (next == call->attempt.right->deadly_output) {
    ++call->attempt.right->kills;
    return sim_.kill_worker(false, index_);
  }
  if (!HasRoom(key, tokens + 1)) return;
  for (int layer = 0; layer < layout_.layers; ++layer) {
    call->attempt.content->Write(call->memory, layer, tokens, tokens + 1);
  }
  ++call->decoded_tokens;
  TellToken(*call, tokens + 1);
  Schedule(key);
}

// Takes a block where one is needed; when there is none, the youngest gives way, who may be this.
bool DecodeSim::HasRoom(Key key, int tokens) {
  Call& call = *Find(key);
  while (call.blocks.size() < static_cast<size_t>(layout_.BlocksFor(tokens))) {
    if (call.promise.count() > 0) {
      TakeOwn(call, call.promise.Take());
      continue;
    }
    if (auto block = pool_->TryAllocate()) {
      TakeOwn(call, *std::move(block));
      continue;
    }
    Key youngest = key;
    for (const auto& [other, running] : calls_) {
      if (!running.committed || running.released || running.preempted || running.cancelled) {
        continue;
      }
      if (running.order > Find(youngest)->order) youngest = other;
    }
    Preempt(youngest);
    if (youngest == key) return false;
  }
  return true;
}

// Its blocks go back; when there is room it computes what it had by itself.
void DecodeSim::Preempt(Key key) {
  Call& call = *Find(key);
  ++sim_.coverage.preemptions;
  call.preempted = true;
  for (const Call*& owner : owners_) {
    if (owner == &call) owner = nullptr;
  }
  while (!call.blocks.empty()) call.blocks.pop_back();
  call.promise = BlockPool::Promise();
  internal::v1::DecodeResponse response;
  response.mutable_preempted()->set_choice(call.attempt.key.choice());
  Tell(call, response);
  core_.process().After(sim_.random.Between(1'000, 50'000), [this] { GoOnWithPreempted(); });
}

void DecodeSim::GoOnWithPreempted() {
  for (auto& [key, call] : calls_) {
    if (!call.preempted || call.cancelled || call.released) continue;
    const int tokens = static_cast<int>(call.attempt.token_ids.size()) + call.decoded_tokens;
    auto promise = pool_->TryPromise(layout_.BlocksFor(tokens) + 1);
    if (!promise.has_value()) return;
    call.promise = *std::move(promise);
    call.memory = {memory_.data(), layout_, {}};
    call.generations.clear();
    call.shared_blocks = 0;
    while (call.blocks.size() < static_cast<size_t>(layout_.BlocksFor(tokens))) {
      TakeOwn(call, call.promise.Take());
    }
    for (int layer = 0; layer < layout_.layers; ++layer) {
      call.attempt.content->Write(call.memory, layer, 0, tokens);
    }
    call.preempted = false;
    Schedule(key);
  }
}

}  // namespace baton
