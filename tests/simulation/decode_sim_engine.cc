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
    if (call.released) continue;
    const bool computes = call.local && call.accepted && !call.committed;
    load.running += computes ? 1 : static_cast<uint32_t>(call.parted.size());
    if (call.paused) continue;
    load.runnable += computes ? 1 : 0;
    for (const auto& [number, choice] : call.parted) load.runnable += choice.preempted ? 0 : 1;
  }
  load.waiting = static_cast<uint32_t>(waiting_.size());
  load.free_blocks = static_cast<uint32_t>(pool_->available_blocks());
  return load;
}

// One sequence may have to be alone in the batch.
bool DecodeSim::MustWait(Key key) const {
  for (const auto& [other, call] : calls_) {
    if (!call.attempt.isolate || call.released || call.paused) continue;
    const bool runs = std::any_of(call.parted.begin(), call.parted.end(),
                                  [](const auto& choice) { return !choice.second.preempted; });
    if (runs || (call.local && call.granted && !call.committed)) return other != key;
  }
  return false;
}

// The next chunk of a prompt that no prefill worker computes.
void DecodeSim::TellProgress(const Call& call) {
  internal::v1::DecodeResponse response;
  response.mutable_prefill_progress()->set_computed_tokens(
      static_cast<uint32_t>(call.computed_tokens));
  Tell(call, response);
}

void DecodeSim::ComputeChunk(Key key) {
  Call* call = Find(key);
  if (call == nullptr || call->cancelled) return;
  if (MustWait(key)) return core_.Work(2'000, [this, key] { ComputeChunk(key); });
  const std::vector<int32_t>& ids = call->attempt.token_ids;
  const auto tokens = static_cast<int>(ids.size());
  Holding& held = call->held;
  if (!call->granted) {
    held.reservation.GiveUp(TakeCached(held, prefix_cache_->Find(ids, "")));
    const auto needed = static_cast<size_t>(layout_.BlocksFor(tokens));
    while (held.blocks.size() < needed) TakeOwn(held, held.reservation.Take());
    call->granted = true;
    call->computed_tokens = static_cast<int>(held.shared_blocks) * layout_.block_size;
    ++sim_.coverage.local_prefills;
    TellProgress(*call);
  }
  const int first = call->computed_tokens;
  if (call->attempt.right->deadly_chunk >= 0 &&
      first / kChunk == call->attempt.right->deadly_chunk) {
    ++call->attempt.right->kills;
    return sim_.kill_worker(false, index_);
  }
  const int end = std::min(tokens, (first / kChunk + 1) * kChunk);
  for (int layer = 0; layer < layout_.layers; ++layer) {
    call->attempt.content->Write(held.memory, layer, first, end);
  }
  call->computed_tokens = end;
  TellProgress(*call);
  if (end < tokens) {
    return core_.Work(sim_.random.Between(200, 4'000), [this, key] { ComputeChunk(key); });
  }
  if (IsDeadly(call->attempt, OutputIndex(call->attempt))) {
    ++call->attempt.right->kills;
    return sim_.kill_worker(false, index_);
  }
  call->committed = true;
  EnterBlocks(*call);
  BeginDecoding(key);
}

void DecodeSim::Schedule(Key key, uint32_t number) {
  const Call* call = Find(key);
  Choice* choice = FindChoice(key, number);
  if (choice == nullptr || choice->stepping || choice->preempted || call->paused ||
      call->cancelled || call->released) {
    return;
  }
  choice->stepping = true;
  core_.Work(sim_.random.Between(500, 4'000), [this, key, number] { Step(key, number); });
}

// One step of a sequence: the last token's own KV, then the next token.
void DecodeSim::Step(Key key, uint32_t number) {
  Choice* choice = FindChoice(key, number);
  if (choice == nullptr) return;
  Call& call = *Find(key);
  choice->stepping = false;
  if (call.released || call.cancelled || call.paused || choice->preempted) return;
  if (MustWait(key)) return Schedule(key, number);
  const int tokens = static_cast<int>(call.attempt.token_ids.size()) + choice->decoded_tokens;
  if (TokenAfter(call.attempt, number, tokens).ends_sequence()) {
    CheckContent(call.attempt, number, choice->held.memory, tokens, "at its end");
    return EndChoice(key, number);
  }
  const SimRequest& right = *call.attempt.right;
  if (number == right.deadly_choice &&
      tokens + 1 - call.attempt.prompt_length == right.deadly_output) {
    ++call.attempt.right->kills;
    return sim_.kill_worker(false, index_);
  }
  if (!HasRoom(call, *choice, tokens + 1)) return;
  CheckMayDecode(*choice, tokens);
  for (int layer = 0; layer < layout_.layers; ++layer) {
    right.choices[number].content->Write(choice->held.memory, layer, tokens, tokens + 1);
  }
  ++choice->decoded_tokens;
  internal::v1::DecodeResponse response;
  *response.mutable_tokens()->add_tokens() = TokenAfter(call.attempt, number, tokens + 1);
  Tell(call, response);
  Schedule(key, number);
}

// Takes a block where one is needed; when there is none, the youngest gives way, who may be this.
bool DecodeSim::HasRoom(Call& call, Choice& choice, int tokens) {
  Holding& held = choice.held;
  while (held.blocks.size() < static_cast<size_t>(layout_.BlocksFor(tokens))) {
    if (held.reservation.count() > 0) {
      TakeOwn(held, held.reservation.Take());
      continue;
    }
    if (auto block = pool_->TryAllocate()) {
      TakeOwn(held, *std::move(block));
      continue;
    }
    Call* of = &call;
    uint32_t number = 0;
    const Choice* youngest = nullptr;
    for (auto& [key, running] : calls_) {
      if (running.released || running.cancelled) continue;
      for (const auto& [candidate_number, candidate] : running.parted) {
        if (candidate.preempted) continue;
        if (youngest != nullptr && candidate.order < youngest->order) continue;
        youngest = &candidate;
        number = candidate_number;
        of = &running;
      }
    }
    Preempt(*of, number);
    if (youngest == &choice) return false;
  }
  return true;
}

// Its blocks go back; when there is room it computes what it had by itself.
void DecodeSim::Preempt(Call& call, uint32_t number) {
  Choice& choice = call.parted.at(number);
  ++sim_.coverage.preemptions;
  choice.preempted = true;
  GiveBack(choice.held);
  internal::v1::DecodeResponse response;
  response.mutable_preempted()->set_choice(number);
  Tell(call, response);
  core_.process().After(sim_.random.Between(1'000, 50'000), [this] { GoOnWithPreempted(); });
}

void DecodeSim::GoOnWithPreempted() {
  for (auto& [key, call] : calls_) {
    if (call.cancelled || call.released) continue;
    for (auto& [number, choice] : call.parted) {
      if (!choice.preempted) continue;
      if (!Recompute(call, number)) return;
      Schedule(key, number);
    }
  }
}

// False when there is no room. What its siblings share it finds again.
bool DecodeSim::Recompute(Call& call, uint32_t number) {
  Choice& choice = call.parted.at(number);
  const std::vector<int32_t> ids = Tokens(call, number);
  const auto tokens = static_cast<int>(ids.size());
  const std::vector<int32_t> cached = prefix_cache_->Find(ids, "");
  const auto used = std::count_if(cached.begin(), cached.end(), [this](int32_t block) {
    return pool_->reference_count(block) > 0;
  });
  auto reservation = pool_->TryReserve(layout_.BlocksFor(tokens) + 1 - static_cast<int>(used));
  if (!reservation.has_value()) return false;
  Holding& held = choice.held;
  held.reservation = *std::move(reservation);
  TakeCached(held, cached);
  while (held.blocks.size() < static_cast<size_t>(layout_.BlocksFor(tokens))) {
    TakeOwn(held, held.reservation.Take());
  }
  const int first = static_cast<int>(cached.size()) * layout_.block_size;
  for (int layer = 0; layer < layout_.layers; ++layer) {
    call.attempt.right->choices[number].content->Write(held.memory, layer, first, tokens);
  }
  choice.preempted = false;
  return true;
}

// Those whose KV a choice has: its last output is not among them.
std::vector<int32_t> DecodeSim::Tokens(const Call& call, uint32_t number) {
  std::vector<int32_t> ids = call.attempt.token_ids;
  const auto output =
      call.attempt.right->choices[number].output.begin() + OutputIndex(call.attempt);
  ids.insert(ids.end(), output, output + call.parted.at(number).decoded_tokens);
  return ids;
}

// Blocks came back.
void DecodeSim::WakeWaiting() {
  core_.process().After(1, [this] {
    GoOnWithPreempted();
    AdmitWaiting();
  });
}

}  // namespace baton
