#include "tests/simulation/prefill_sim.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/sim_open.h"
#include "tests/support/push_messages.h"

namespace baton {

using internal::v1::PushAbort;
using internal::v1::PushResponse;

namespace {

constexpr int kBlocks = 40;
constexpr int kChunk = 64;

}  // namespace

PrefillSim::PrefillSim(Sim& sim, Network& network, int index, Callbacks callbacks)
    : sim_(sim),
      network_(network),
      index_(index),
      callbacks_(std::move(callbacks)),
      process_(sim),
      layout_(SimLayout(16 * static_cast<int>(sim.random.Between(1, 3)))),
      max_payload_bytes_(static_cast<size_t>(sim.random.Between(256, 700))),
      min_payload_bytes_(static_cast<size_t>(sim.random.Between(0, 600))),
      max_streams_(static_cast<int>(sim.random.Between(1, 4))) {
  memory_.resize(static_cast<size_t>(kBlocks) * layout_.block_bytes());
  page_crcs_.resize(static_cast<size_t>(kBlocks * layout_.layers * layout_.pages_per_block()));
  Restart();
}

PrefillSim::~PrefillSim() { Crash(); }

void PrefillSim::Restart() {
  process_.Start();
  live_slices_.assign(kBlocks, 0);
  pool_.emplace(kBlocks);
  prefix_cache_.emplace("sim", layout_.block_size, *pool_);
}

void PrefillSim::Crash() {
  process_.Die();
  streams_.clear();
  pushes_.clear();
  waiting_.clear();
  squeezed_.clear();
  prefix_cache_.reset();
  pool_.reset();
}

void PrefillSim::Start(const SimAttempt& attempt) {
  waiting_.push_back(attempt);
  StartWaiting();
}

void PrefillSim::Cancel(const SimAttempt& attempt) {
  const Key key{attempt.request, attempt.attempt};
  std::erase_if(waiting_, [&](const SimAttempt& w) { return Key{w.request, w.attempt} == key; });
  Push* push = Find(key);
  if (push == nullptr) return;
  push->engine_stopped = true;
  Deliver(key, KvSender::Abort{PushAbort::REASON_CANCELLED});
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
  auto promise = pool_->TryPromise(static_cast<int>(needed) - used);
  if (!promise.has_value()) return false;
  for (const int32_t id : cached) {
    push.blocks.push_back(pool_->reference_count(id) == 0 ? promise->TakeKept(id)
                                                          : pool_->Share(id));
  }
  while (push.blocks.size() < needed) {
    push.blocks.push_back(promise->Take());
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
    push.sender = std::make_unique<KvSender>(
        KvSender::Config{.open = SimOpen(sim_, push.attempt, layout_.block_size),
                         .layout = layout_,
                         .token_ids = push.attempt.token_ids,
                         .limits = {.max_payload_bytes = max_payload_bytes_,
                                    .min_payload_bytes = min_payload_bytes_},
                         .streams = max_streams_});
    pushes_.emplace(key, std::move(push));
    process_.After(sim_.random.Between(0, 2'000), [this, key] {
      Deliver(key, KvSender::Begin{});
      Compute(key, 0);
    });
  }
}

KvSender::LayerReady PrefillSim::Ready(const Push& push, int layer, int first, int end) const {
  KvSender::LayerReady ready{layer, first, end - first, {}};
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
  const int tokens = static_cast<int>(push->attempt.token_ids.size());
  const int first = push->computed_tokens;
  const int end = std::min(tokens, (first / kChunk + 1) * kChunk);
  if (layer == 0 && first == push->cached_tokens && first > 0) {
    for (int cached = 0; cached < layout_.layers; ++cached) {
      Deliver(key, Ready(*push, cached, 0, first));
    }
  }
  const int first_page_token = first / kKvPageTokens * kKvPageTokens;
  push->attempt.content->Write(push->memory, layer, first, end);
  for (int token = first_page_token; token < end; token += kKvPageTokens) {
    const int32_t block = push->memory.block_table[static_cast<size_t>(token / layout_.block_size)];
    PageCrc(block, layer, token % layout_.block_size / kKvPageTokens) =
        push->memory.PageCrc(layer, token, std::min(token + kKvPageTokens, end));
  }
  MaybeRot(*push, layer, first);
  Deliver(key, Ready(*push, layer, first, end));
  // As where layers are staged and there is no room for the next before this one is sent.
  if (key.second % 2 == 0) Deliver(key, KvSender::Flush{});
  push = Find(key);
  if (push == nullptr) return;
  if (layer + 1 == layout_.layers) {
    push->computed_tokens = end;
    ChunkDone(*push);
  }
  const int next = (layer + 1) % layout_.layers;
  process_.After(sim_.random.Between(50, 1'500), [this, key, next] { Compute(key, next); });
}

// A byte changes under the sender's hands, for a while.
void PrefillSim::MaybeRot(const Push& push, int layer, int token) {
  if (!sim_.Strikes(Fault::kStaleSource)) return;
  uint8_t* byte = push.memory.Row(layer, KvLayout::kValues, token);
  *byte ^= 0x10;
  sim_.queue.After(sim_.random.Between(200, 300'000), [this, byte, life = process_.life()] {
    if (life == process_.life()) *byte ^= 0x10;
  });
}

void PrefillSim::ChunkDone(Push& push) {
  const Key key{push.attempt.request, push.attempt.attempt};
  const int tokens = static_cast<int>(push.attempt.token_ids.size());
  const int end = push.computed_tokens;
  const auto whole = static_cast<size_t>(end / layout_.block_size);
  for (size_t& next = push.entered_blocks; next < whole; ++next) {
    auto block = prefix_cache_->Insert(push.attempt.token_ids, "", push.blocks, next);
    if (block.id() == push.blocks[next].id()) continue;
    std::swap(push.blocks[next], block);
    push.replaced.push_back(std::move(block));
  }
  const SimAttempt attempt = push.attempt;
  if (end == tokens) push.engine_stopped = true;
  Deliver(key, KvSender::ChunkReady{end});
  if (end < tokens) return;
  const int32_t token = attempt.content->NextToken(tokens);
  const bool ends = attempt.remaining_tokens == 1;
  process_.After(sim_.random.Between(10, 500), [this, key, attempt, token, ends] {
    callbacks_.first_token(attempt, token, ends);
    if (ends) return Deliver(key, KvSender::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
    KvSender::FirstToken first;
    first.token.set_output_index(static_cast<uint32_t>(OutputIndex(attempt)));
    first.token.mutable_token()->set_token_id(static_cast<uint32_t>(token));
    Deliver(key, first);
  });
}

void PrefillSim::Answer(Network::StreamId stream, const std::string& bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  PushResponse answer;
  if (!answer.ParseFromString(bytes)) answer.Clear();
  const auto [key, number] = found->second;
  Deliver(key, KvSender::Response{answer, number});
}

void PrefillSim::Ended(Network::StreamId stream, const absl::Status& status) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const auto [key, number] = found->second;
  streams_.erase(found);
  if (Push* push = Find(key)) push->streams.erase(number);
  Deliver(key, KvSender::StreamEnded{status, number});
}

void PrefillSim::Deliver(Key key, const KvSender::Event& event) {
  Push* push = Find(key);
  if (push == nullptr) return;
  const KvSender::State before = push->sender->state();
  const std::vector<KvSender::Action> actions = push->sender->Handle(event, sim_.queue.time());
  const KvSender::State after = push->sender->state();
  sim_.coverage.Count(before, event, after);
  sim_.Trace(10 + event.index(), static_cast<uint64_t>(key.first), static_cast<uint64_t>(after));
  for (const KvSender::Action& action : actions) Execute(*push, action);
  if (!push->sender->gone()) return Arm(key, *push);
  if (!push->blocks_back || push->live_messages > 0) {
    sim_.Violation("a sender is gone before its blocks are back");
  }
  if (!push->streams.empty()) sim_.Violation("a sender is gone before its streams");
  pushes_.erase(key);
}

void PrefillSim::Execute(Push& push, const KvSender::Action& action) {
  const auto send = [&](int stream, const internal::v1::PushRequest& message) {
    if (push.streams.count(stream) == 0) return;
    network_.Send(push.streams[stream],
                  {.is_data = false,
                   .bytes = [bytes = message.SerializeAsString()] { return bytes; },
                   .released = nullptr});
  };
  if (const auto* open = std::get_if<KvSender::OpenStream>(&action)) {
    const Network::StreamId id = network_.Open(index_, push.attempt.decode);
    push.streams[open->stream] = id;
    streams_[id] = {Key{push.attempt.request, push.attempt.attempt}, open->stream};
    if (open->stream > 0) ++sim_.coverage.joins;
    send(open->stream, open->first);
  } else if (const auto* data = std::get_if<KvSender::SendData>(&action)) {
    SendData(push, *data);
  } else if (const auto* control = std::get_if<KvSender::SendControl>(&action)) {
    if (control->drop_queued) {
      for (const auto& [number, id] : push.streams) network_.DropQueuedData(id);
    }
    send(0, control->message);
  } else if (const auto* close = std::get_if<KvSender::HalfClose>(&action)) {
    if (push.streams.count(close->stream) > 0) network_.HalfClose(push.streams[close->stream]);
  } else if (const auto* cancel = std::get_if<KvSender::CancelStream>(&action)) {
    if (push.streams.count(cancel->stream) > 0) network_.Cancel(push.streams[cancel->stream]);
  } else if (std::holds_alternative<KvSender::DropChannel>(action)) {
    for (const auto& [number, id] : push.streams) network_.DropChannel(id);
  } else if (const auto* finished = std::get_if<KvSender::Finished>(&action)) {
    push.engine_stopped = true;
    callbacks_.finished(push.attempt, finished->status);
  } else if (std::holds_alternative<KvSender::ReleaseBlocks>(action)) {
    if (push.blocks_back) sim_.Violation("a sender gives its blocks back twice");
    if (push.live_messages > 0) sim_.Violation("a sender gives blocks back under live slices");
    push.blocks_back = true;
    while (!push.blocks.empty()) push.blocks.pop_back();  // the last block first
    push.replaced.clear();
    process_.After(1, [this] { StartWaiting(); });
  }
}

void PrefillSim::SendData(Push& push, const KvSender::SendData& data) {
  const Key key{push.attempt.request, push.attempt.attempt};
  if (data.payload_bytes > max_payload_bytes_) sim_.Violation("a payload above its limit");
  ++push.live_messages;
  std::vector<int32_t> blocks;
  const auto first = static_cast<int>(data.header.first_token());
  const int end = first + static_cast<int>(data.header.token_count());
  for (int token = first; token < end; token += kKvPageTokens) {
    blocks.push_back(push.memory.block_table[static_cast<size_t>(token / layout_.block_size)]);
  }
  for (const int32_t block : blocks) ++live_slices_[static_cast<size_t>(block)];
  const auto stream = push.streams.find(data.stream);
  network_.Send(stream == push.streams.end() ? 0 : stream->second,
                {.is_data = true,
                 .bytes = [this, key, header = data.header] { return Flatten(key, header); },
                 .released =
                     [this, key, blocks, life = process_.life()] {
                       if (life != process_.life()) return;
                       process_.Post([this, key, blocks] {
                         for (const int32_t block : blocks) {
                           --live_slices_[static_cast<size_t>(block)];
                         }
                         Push* released = Find(key);
                         if (released == nullptr) {
                           return sim_.Violation("slices outlive their sender");
                         }
                         --released->live_messages;
                         Deliver(key, KvSender::SlicesReleased{Intact(*released)});
                       });
                     }});
}

bool PrefillSim::Intact(const Push& push) const {
  for (size_t i = 0; i < push.generations.size(); ++i) {
    if (pool_->generation(push.memory.block_table[i]) != push.generations[i]) return false;
  }
  return true;
}

// The bytes of a data message as they are in the blocks when the network takes them.
std::string PrefillSim::Flatten(Key key, const internal::v1::KvDataHeader& header) {
  Push* push = Find(key);
  if (push == nullptr || push->blocks_back) {
    sim_.Violation("the network reads blocks that were given back");
    return "?";
  }
  if (!Intact(*push)) sim_.Violation("the network reads a block in its next life");
  return EncodeData(header, push->memory);
}

void PrefillSim::Arm(Key key, Push& push) {
  const absl::Time deadline = push.sender->NextDeadline();
  if (deadline == absl::InfiniteFuture()) return;
  const Micros at = absl::ToInt64Microseconds(deadline - absl::UnixEpoch()) + 1;
  if (push.timer >= sim_.queue.now() && push.timer <= at) return;
  push.timer = at;
  process_.After(at - sim_.queue.now(), [this, key] {
    Push* due = Find(key);
    if (due == nullptr) return;
    due->timer = -1;
    if (due->sender->NextDeadline() <= sim_.queue.time()) return Deliver(key, KvSender::Tick{});
    Arm(key, *due);
  });
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
  if (process_.up()) StartWaiting();
}

void PrefillSim::CheckAtRest() {
  if (!pushes_.empty() || !waiting_.empty()) {
    sim_.Violation("prefill worker ", index_, " still has ", pushes_.size(), " pushes and ",
                   waiting_.size(), " waiting prompts");
  }
  if (pool_->used_blocks() != 0 || pool_->promised_blocks() != 0) {
    sim_.Violation("prefill worker ", index_, " has ", pool_->used_blocks(), " blocks in use");
  }
  pool_->CheckInvariants();
}

}  // namespace baton
