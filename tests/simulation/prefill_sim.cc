#include "tests/simulation/prefill_sim.h"

#include <algorithm>
#include <utility>

#include "common/protocol/identity.h"
#include "common/protocol/worker_status.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::PushAbort;

namespace {

constexpr int kBlocks = 40;
constexpr int kChunk = 64;
constexpr size_t kMaxWaiting = 8;

}  // namespace

PrefillSim::PrefillSim(Sim& sim, Network& network, ControlNetwork& control, int index)
    : sim_(sim),
      network_(network),
      control_(control),
      index_(index),
      layout_(SimLayout(16 * static_cast<int>(sim.random.Between(1, 3)))),
      core_(
          sim, control, {true, index}, layout_.block_size, [this] { return Load(); },
          [this]() -> PrefixPages& { return prefix_cache_->pages(); }),
      max_payload_bytes_(static_cast<size_t>(sim.random.Between(256, 700))),
      min_payload_bytes_(static_cast<size_t>(sim.random.Between(0, 600))),
      max_streams_(static_cast<int>(sim.random.Between(1, 4))) {
  memory_.resize(static_cast<size_t>(kBlocks) * layout_.block_bytes());
  page_crcs_.resize(static_cast<size_t>(kBlocks * layout_.layers * layout_.pages_per_block()));
  control_.AddWorker(core_.id(),
                     {.process = &core_.process(),
                      .opened = [this](ControlNetwork::CallId call,
                                       ControlNetwork::Method method) { Opened(call, method); },
                      .received =
                          [this](ControlNetwork::CallId call, const google::protobuf::Message& m) {
                            if (core_.IsWatch(call)) return;
                            Received(call, static_cast<const PrefillRequest&>(m));
                          },
                      .cancelled = [this](ControlNetwork::CallId call) { Cancelled(call); }});
  Restart();
}

PrefillSim::~PrefillSim() { Crash(); }

void PrefillSim::Restart() {
  core_.Boot();
  live_slices_.assign(kBlocks, 0);
  pool_.emplace(kBlocks);
  prefix_cache_.emplace(core_.prefix_identity(), layout_.block_size, *pool_);
}

void PrefillSim::Crash() {
  core_.Crash();
  streams_.clear();
  pushes_.clear();
  waiting_.clear();
  calls_.clear();
  squeezed_.clear();
  prefix_cache_.reset();
  pool_.reset();
}

WorkerCore::Load PrefillSim::Load() const {
  WorkerCore::Load load;
  for (const auto& [key, push] : pushes_) load.runnable += push.engine_stopped ? 0 : 1;
  load.running = load.runnable;
  load.waiting = static_cast<uint32_t>(waiting_.size());
  for (const SimAttempt& attempt : waiting_) {
    load.waiting_tokens += static_cast<uint32_t>(attempt.token_ids.size());
  }
  load.free_blocks = static_cast<uint32_t>(pool_->available_blocks());
  return load;
}

void PrefillSim::Opened(ControlNetwork::CallId call, ControlNetwork::Method method) {
  if (method == ControlNetwork::Method::kWatch) core_.Watched(call);
}

void PrefillSim::Received(ControlNetwork::CallId call, const PrefillRequest& request) {
  if (core_.draining()) {
    return control_.End(call, DrainingStatus(core_.id().address(), kStageQueue));
  }
  if (core_.failing()) {
    return control_.End(call, WithErrorInfo(absl::UnavailableError("it takes nothing"),
                                            {"ENGINE_FAILED", kStagePrefill}));
  }
  if (waiting_.size() >= kMaxWaiting) {
    return control_.End(
        call, WorkerFullStatus("too many prompts wait", core_.id().address(), kStageQueue));
  }
  SimAttempt attempt = AttemptFrom(sim_, call, request.sequence());
  if (!request.decode_address().empty()) {
    if (absl::Status same = CheckSameIdentity(core_.identity(), request.decode_identity());
        !same.ok()) {
      return control_.End(call, same);
    }
    attempt.decode = request.decode_address()[1] - '0';
  }
  calls_[call] = {attempt.request, attempt.attempt};
  waiting_.push_back(std::move(attempt));
  StartWaiting();
}

void PrefillSim::Cancelled(ControlNetwork::CallId call) {
  core_.WatchOver(call);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const Key key = found->second;
  calls_.erase(found);
  std::erase_if(waiting_, [&](const SimAttempt& w) { return Key{w.request, w.attempt} == key; });
  Push* push = Find(key);
  if (push == nullptr) return StartWaiting();
  push->engine_stopped = true;
  push->call_over = true;
  if (push->sender != nullptr) return Deliver(key, SendEvent::Abort{PushAbort::REASON_CANCELLED});
  GiveBlocksBack(*push);
  pushes_.erase(key);
}

void PrefillSim::EndAll() {
  for (const auto& [call, key] : std::map(calls_)) {
    control_.End(call, DrainingStatus(core_.id().address(), kStagePrefill));
    Cancelled(call);
  }
}

void PrefillSim::Tell(const Push& push, const PrefillResponse& response) {
  if (push.call_over) return;
  control_.Answer(push.attempt.call, std::make_shared<PrefillResponse>(response));
}

void PrefillSim::EndCall(Push& push, const absl::Status& status) {
  if (std::exchange(push.call_over, true)) return;
  calls_.erase(push.attempt.call);
  control_.End(push.attempt.call, status);
  // However a call ends, its push is told.
  const Key key{push.attempt.request, push.attempt.attempt};
  core_.process().After(1, [this, key] {
    const Push* ended = Find(key);
    if (ended != nullptr && ended->sender != nullptr) {
      Deliver(key, SendEvent::Abort{PushAbort::REASON_FAILED});
    }
  });
}

void PrefillSim::MaybeFinish(Key key) {
  Push& push = *Find(key);
  if (!push.computed || (push.sender != nullptr && !push.pushed)) return;
  PrefillResponse response;
  response.mutable_finished()->set_bytes_sent(1);
  Tell(push, response);
  EndCall(push, absl::OkStatus());
  if (push.sender != nullptr) return;
  GiveBlocksBack(push);
  pushes_.erase(key);
}

void PrefillSim::GiveBlocksBack(Push& push) {
  push.blocks_back = true;
  while (!push.blocks.empty()) push.blocks.pop_back();  // the last block first
  push.replaced.clear();
  core_.process().After(1, [this] { StartWaiting(); });
}

PrefillSim::Push* PrefillSim::Find(Key key) {
  const auto found = pushes_.find(key);
  return found == pushes_.end() ? nullptr : &found->second;
}

uint32_t& PrefillSim::PageCrc(int32_t block, int layer, int page_in_block) {
  return page_crcs_[static_cast<size_t>(
      (block * layout_.layers + layer) * layout_.pages_per_block() + page_in_block)];
}

void PrefillSim::CheckUnused(const BlockPool::Block& block) {
  if (live_slices_[static_cast<size_t>(block.id())] > 0) {
    sim_.Violation("prefill worker ", index_, " gives out block ", block.id(),
                   " under live slices");
  }
}

// All blocks of the sequence, the cached prefix among them; false when too few are free.
bool PrefillSim::TakeBlocks(Push& push) {
  const std::vector<int32_t>& tokens = push.attempt.token_ids;
  const auto needed = static_cast<size_t>(layout_.BlocksFor(static_cast<int>(tokens.size())));
  const std::vector<int32_t> cached = prefix_cache_->Find(tokens, "");
  int kept = 0;
  for (const int32_t id : cached) kept += pool_->reference_count(id) == 0 ? 1 : 0;
  const int used = static_cast<int>(cached.size()) - kept;
  auto reservation = pool_->TryReserve(static_cast<int>(needed) - used);
  if (!reservation.has_value()) return false;
  for (const int32_t id : cached) {
    push.blocks.push_back(pool_->reference_count(id) == 0 ? reservation->TakeKept(id)
                                                          : pool_->Share(id));
  }
  while (push.blocks.size() < needed) {
    push.blocks.push_back(reservation->Take());
    CheckUnused(push.blocks.back());
  }
  push.cached_tokens = static_cast<int>(cached.size()) * layout_.block_size;
  push.computed_tokens = push.cached_tokens;
  push.entered_blocks = cached.size();
  push.memory = {memory_.data(), layout_, {}};
  for (const BlockPool::Block& block : push.blocks) {
    push.memory.block_table.push_back(block.id());
    push.generations.push_back(pool_->generation(block.id()));
  }
  return true;
}

void PrefillSim::StartWaiting() {
  while (!waiting_.empty()) {
    Push push;
    push.attempt = waiting_.front();
    const Key key{push.attempt.request, push.attempt.attempt};
    if (pushes_.count(key) > 0 || !TakeBlocks(push)) return;
    waiting_.pop_front();
    if (push.attempt.decode >= 0) {
      push.sender = std::make_unique<SendMachine>(
          SendConfig{.open = SimOpen(sim_, push.attempt, layout_.block_size),
                     .layout = layout_,
                     .token_ids = push.attempt.token_ids,
                     .limits = {.max_payload_bytes = max_payload_bytes_,
                                .min_payload_bytes = min_payload_bytes_},
                     .choices = static_cast<int>(push.attempt.choices),
                     .streams = max_streams_});
    }
    Push& started = pushes_.emplace(key, std::move(push)).first->second;
    core_.Work(sim_.random.Between(0, 2'000), [this, key] {
      const Push* begun = Find(key);
      if (begun == nullptr) return;
      PrefillResponse response;
      response.mutable_started()->set_cached_tokens(static_cast<uint32_t>(begun->cached_tokens));
      Tell(*begun, response);
      if (begun->sender != nullptr) Deliver(key, SendEvent::Begin{});
      Compute(key, 0);
    });
    if (started.attempt.isolate) ++sim_.coverage.isolated;
  }
}

// One sequence may have to be alone in the batch.
bool PrefillSim::MustWait(Key key) const {
  for (const auto& [other, push] : pushes_) {
    if (push.engine_stopped || !push.attempt.isolate) continue;
    return other != key;
  }
  return false;
}

SendEvent::LayerReady PrefillSim::Ready(const Push& push, int layer, int first, int end) const {
  SendEvent::LayerReady ready{{layer, {first, end}}, {}};
  for (int token = first; token < end; token += kKvPageTokens) {
    const int32_t block = push.memory.block_table[static_cast<size_t>(token / layout_.block_size)];
    ready.page_crcs.push_back(const_cast<PrefillSim*>(this)->PageCrc(
        block, layer, token % layout_.block_size / kKvPageTokens));
  }
  return ready;
}

// One layer of the next chunk; what was computed earlier is announced with the first.
void PrefillSim::Compute(Key key, int layer) {
  Push* push = Find(key);
  if (push == nullptr || push->engine_stopped) return;
  if (layer == 0 && MustWait(key)) {
    return core_.Work(2'000, [this, key] { Compute(key, 0); });
  }
  const int deadly = push->attempt.right->deadly_chunk;
  if (deadly >= 0 && push->computed_tokens / kChunk == deadly) {
    ++push->attempt.right->kills;
    return sim_.kill_worker(true, index_);
  }
  ComputeLayer(key, *push, layer);
  push = Find(key);
  if (push == nullptr) return;
  const int next = (layer + 1) % layout_.layers;
  if (next == 0) ChunkDone(key);
  push = Find(key);
  if (push == nullptr || push->computed) return;
  core_.Work(sim_.random.Between(50, 1'500), [this, key, next] { Compute(key, next); });
}

void PrefillSim::ComputeLayer(Key key, Push& push, int layer) {
  const int tokens = static_cast<int>(push.attempt.token_ids.size());
  const int first = push.computed_tokens;
  const int end = std::min(tokens, (first / kChunk + 1) * kChunk);
  const bool pushes = push.sender != nullptr;
  if (pushes && layer == 0 && first == push.cached_tokens && first > 0) {
    for (int cached = 0; cached < layout_.layers; ++cached) {
      Deliver(key, Ready(push, cached, 0, first));
    }
  }
  const int first_page_token = first / kKvPageTokens * kKvPageTokens;
  push.attempt.content->Write(push.memory, layer, first, end);
  for (int token = first_page_token; token < end; token += kKvPageTokens) {
    const int32_t block = push.memory.block_table[static_cast<size_t>(token / layout_.block_size)];
    PageCrc(block, layer, token % layout_.block_size / kKvPageTokens) =
        push.memory.PageCrc(layer, {token, std::min(token + kKvPageTokens, end)});
  }
  if (!pushes) return;
  MaybeRot(push, layer, first);
  Deliver(key, Ready(push, layer, first, end));
  // As where layers are staged and there is no room for the next before this one is sent.
  if (key.second % 2 == 0) Deliver(key, SendEvent::Flush{});
}

// A byte changes under the sender's hands, for a while.
void PrefillSim::MaybeRot(const Push& push, int layer, int token) {
  if (!sim_.Strikes(Fault::kStaleSource)) return;
  uint8_t* byte = push.memory.Row(layer, KvLayout::kValues, token);
  *byte ^= 0x10;
  sim_.queue.After(sim_.random.Between(200, 300'000), [this, byte, life = core_.process().life()] {
    if (life == core_.process().life()) *byte ^= 0x10;
  });
}

void PrefillSim::ChunkDone(Key key) {
  Push& push = *Find(key);
  const int tokens = static_cast<int>(push.attempt.token_ids.size());
  push.computed_tokens = std::min(tokens, (push.computed_tokens / kChunk + 1) * kChunk);
  const int end = push.computed_tokens;
  const auto whole = static_cast<size_t>(end / layout_.block_size);
  for (size_t& next = push.entered_blocks; next < whole; ++next) {
    auto block = prefix_cache_->Insert(push.attempt.token_ids, "", push.blocks, next);
    if (block.id() == push.blocks[next].id()) continue;
    std::swap(push.blocks[next], block);
    push.replaced.push_back(std::move(block));
  }
  PrefillResponse response;
  response.mutable_progress()->set_computed_tokens(static_cast<uint32_t>(end));
  Tell(push, response);
  push.computed = push.engine_stopped = end == tokens;
  const bool computed = push.computed;
  if (push.sender != nullptr) Deliver(key, SendEvent::ChunkReady{end});
  if (computed)
    core_.process().After(sim_.random.Between(10, 500), [this, key] { PromptDone(key); });
}

void PrefillSim::Squeeze() {
  while (pool_->available_blocks() > 2) {
    squeezed_.push_back(*pool_->TryAllocate());
    CheckUnused(squeezed_.back());
    uint8_t* first =
        memory_.data() + static_cast<size_t>(squeezed_.back().id()) * layout_.block_bytes();
    std::fill(first, first + layout_.block_bytes(), static_cast<uint8_t>(sim_.random.Next()));
  }
}

void PrefillSim::Relax() {
  squeezed_.clear();
  if (core_.process().up()) StartWaiting();
}

int PrefillSim::HeldTokens(const std::vector<int32_t>& prompt) const {
  return static_cast<int>(prefix_cache_->Find(prompt, "").size()) * layout_.block_size;
}

void PrefillSim::CheckAtRest() {
  if (!idle()) {
    sim_.Violation("prefill worker ", index_, " still has ", pushes_.size(), " pushes, ",
                   waiting_.size(), " waiting prompts and ", calls_.size(), " calls");
  }
  if (pool_->used_blocks() != 0 || pool_->reserved_blocks() != 0) {
    sim_.Violation("prefill worker ", index_, " has ", pool_->used_blocks(), " blocks in use");
  }
  pool_->CheckInvariants();
}

}  // namespace baton
