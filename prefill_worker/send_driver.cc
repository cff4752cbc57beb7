#include "prefill_worker/send_driver.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/handoff/kv_wire.h"
#include "common/rpc/status.h"
#include "prefill_worker/kv_buffer.h"
#include "prefill_worker/page_encoder.h"

namespace baton {
namespace {

SendConfig WithStreams(SendConfig config, size_t streams) {
  config.streams = static_cast<int>(streams);
  return config;
}

grpc::ByteBuffer Serialize(const internal::v1::PushRequest& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

std::vector<int32_t> NoBlocks(const SendConfig& config) {
  const int entries = config.layout.TableEntriesFor(static_cast<int>(config.token_ids.size()));
  return std::vector<int32_t>(static_cast<size_t>(entries), kNoBlock);
}

// The indices in a block table of the blocks with these tokens of a layer, ascending.
std::vector<size_t> TableIndices(const KvLayout& layout, const LayerTokens& kv) {
  std::vector<size_t> indices;
  const int block_size = layout.block_size;
  for (int block = kv.tokens.begin / block_size; block * block_size < kv.tokens.end; ++block) {
    // tests/planted_bugs: blocks_of_another_group_sent
    indices.push_back(layout.TableIndex(kv.layer, block * block_size));
  }
  return indices;
}

size_t SlotsOf(const KvStaging* staging) {
  return staging == nullptr ? 0 : static_cast<size_t>(staging->slot_count());
}

// The end of a push whose thread lost messages of the prefill.
SendEvent::Abort FellBehind() {
  return {internal::v1::PushAbort::REASON_FAILED,
          absl::UnavailableError(
              "the push fell behind the prefill: too many computed layers are waiting to be sent")};
}

}  // namespace

SendDriver::SendDriver(Options options)
    : layout_(options.config.layout),
      machine_(WithStreams(options.config, options.channels.size())),
      blocks_{options.cache_base, layout_, NoBlocks(options.config)},
      block_generations_(blocks_.block_table.size()),
      wire_(options.config.layout, *KvTypeFromName(options.config.open.wire_dtype())),
      staged_(options.staging != nullptr),
      jobs_(staged_ ? &options.staging->jobs() : nullptr),
      channels_(std::move(options.channels)),
      callbacks_(std::move(options.callbacks)),
      streams_(channels_.size()),
      inbox_(std::make_shared<SendInbox>(
          std::move(options.block_generation),
          SendInbox::Bounds{.prefill_messages = options.max_prefill_messages,
                            .staging_slots = SlotsOf(options.staging)})) {
  if (!staged_) return;
  stager_.emplace(LayerStager::Options{
      .staging = options.staging,
      .wire = wire_,
      .post = [inbox = inbox_](LayerStager::Event event) { inbox->Post(std::move(event)); },
      .block_generation = [inbox = inbox_](int32_t block) { return inbox->GenerationOf(block); }});
}

void SendDriver::PostLayer(SendEvent::LayerReady layer, absl::Span<const int32_t> block_table,
                           uint64_t copies_after) {
  std::vector<BlockRef> blocks;
  for (const size_t index : TableIndices(layout_, layer.kv)) {
    BATON_CHECK(block_table[index] != kNoBlock, "what is announced has its blocks");
    blocks.push_back({block_table[index], inbox_->GenerationOf(block_table[index])});
  }
  inbox_->Post(SendInbox::Layer{std::move(layer), std::move(blocks), copies_after});
}

void SendDriver::Run() {
  Tell(SendEvent::Begin{});
  while (!machine_.gone() || may_release_) {
    std::optional<SendInbox::Message> message = inbox_->Next(machine_.NextDeadline() - SteadyNow());
    if (message.has_value()) {
      std::visit([this](auto& kind) { On(std::move(kind)); }, *message);
    } else {
      Tell(SendEvent::Tick{});
    }
    if (inbox_->lost()) Tell(FellBehind());
    Advance();
  }
  inbox_->Close();
  channels_.clear();  // on this thread, not where the last reference to this goes: see SendStream
  callbacks_ = {};
}

void SendDriver::On(SendInbox::Layer layer) {
  SetBlocks(layer.ready.kv, layer.blocks);
  if (!staged_) {
    Tell(OnTheWire(std::move(layer.ready)));
  } else if (stager_.has_value()) {
    stager_->Add(layer.ready, layer.copies_after);
  }
}

void SendDriver::On(const SendEvent::ChunkReady& chunk) {
  if (!staged_) {
    Tell(chunk);
  } else if (stager_.has_value()) {
    stager_->Add(chunk);
  }
}

void SendDriver::On(const SendEvent::Response& response) {
  Tell(response);
  Stream(response.stream).ReadNext();
}

void SendDriver::On(const SendInbox::StreamOver& over) {
  Tell(over.ended);
  // A stream whose connection broke holds slices until it is destroyed.
  streams_[static_cast<size_t>(over.ended.stream)].reset();
}

void SendDriver::On(const SendInbox::Released& released) {
  if (stager_.has_value()) stager_->Released(released.sequence_number);
  if (!released.intact && !std::exchange(stale_, true)) {
    LogError("a KV block was given to another sequence while a push was sending it");
  }
  Tell(SendEvent::SlicesReleased{released.intact});
}

void SendDriver::On(LayerStager::Event event) {
  if (stager_.has_value()) stager_->On(std::move(event));
}

void SendDriver::Tell(const SendEvent::Any& event) {
  for (const SendAction::Any& action : machine_.Handle(event, SteadyNow())) {
    std::visit([this](const auto& kind) { Execute(kind); }, action);
  }
}

// The blocks are released only when no copy reads them: copies may go on after the machine has
// asked for the release.
void SendDriver::Advance() {
  if (stager_.has_value()) {
    for (const SendEvent::Any& event : stager_->Advance(machine_, {blocks_, block_generations_})) {
      Tell(event);
    }
  }
  if (!may_release_ || (stager_.has_value() && !stager_->idle())) return;
  may_release_ = false;
  stager_.reset();
  BATON_FAILPOINT("send_driver.before_release");
  callbacks_.release_blocks();
}

// A block that was posted before keeps the generation that it had then.
void SendDriver::SetBlocks(const LayerTokens& kv, const std::vector<BlockRef>& blocks) {
  const std::vector<size_t> indices = TableIndices(layout_, kv);
  for (size_t i = 0; i < indices.size(); ++i) {
    int32_t& block = blocks_.block_table[indices[i]];
    if (std::exchange(block, blocks[i].id) == blocks[i].id) continue;
    block_generations_[indices[i]] = blocks[i].generation;
  }
}

// Each block once, though several of the layers may lie in it.
std::vector<BlockRef> SendDriver::BlocksOf(const internal::v1::KvDataHeader& header) const {
  std::vector<size_t> indices;
  for (uint32_t i = 0; i < header.layer_count(); ++i) {
    const auto layer = static_cast<int>(header.first_layer() + i);
    for (const size_t index : TableIndices(layout_, {layer, TokensOf(header)})) {
      indices.push_back(index);
    }
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  std::vector<BlockRef> blocks;
  for (const size_t index : indices) {
    blocks.push_back({blocks_.block_table[index], block_generations_[index]});
  }
  return blocks;
}

// The layer with the CRCs of its bytes on the wire, or an Abort that says why it cannot be sent.
SendEvent::Any SendDriver::OnTheWire(SendEvent::LayerReady layer) const {
  if (!wire_.converts()) return layer;
  absl::StatusOr<std::vector<uint32_t>> crcs =
      WirePageCrcs(RowsOfLayer(blocks_, layer.kv.layer), wire_, layer.kv.tokens, layer.page_crcs);
  if (!crcs.ok()) return SendEvent::Abort{internal::v1::PushAbort::REASON_FAILED, crcs.status()};
  layer.page_crcs = *std::move(crcs);
  return layer;
}

void SendDriver::Execute(const SendAction::OpenStream& open) {
  const auto index = static_cast<size_t>(open.stream);
  SendStream::Callbacks callbacks;
  callbacks.answered = [inbox = inbox_, stream = open.stream](internal::v1::PushResponse answer) {
    inbox->Post(SendEvent::Response{std::move(answer), stream});
  };
  callbacks.ended = [inbox = inbox_, stream = open.stream](const grpc::Status& status,
                                                           std::shared_ptr<SendStream> ended) {
    inbox->Post(SendInbox::StreamOver{{FromGrpcStatus(status), stream}, std::move(ended)});
  };
  BATON_FAILPOINT("send_driver.before_stream");
  streams_[index] = std::make_shared<SendStream>(channels_[index], jobs_, std::move(callbacks));
  streams_[index]->Start();
  streams_[index]->Write(Serialize(open.first), false);
}

void SendDriver::Execute(const SendAction::SendControl& control) {
  if (control.drop_queued) Stream(0).DropQueuedData();
  Stream(0).Write(Serialize(control.message), false);
}

void SendDriver::Execute(const SendAction::SendData& data) {
  std::vector<BlockRef> held = BlocksOf(data.header);
  const bool intact = inbox_->Intact(held);
  std::function<void()> released =
      SendInbox::Track(inbox_, std::move(held), data.header.sequence_number());
  std::vector<KvLayerRows> staged;
  if (stager_.has_value()) staged = stager_->Send(data.header);
  BATON_FAILPOINT("send_driver.before_write");
  if (!intact) return released();
  Stream(data.stream).Write(MakeBuffer(data.header, staged, std::move(released)), true);
}

void SendDriver::Execute(const SendAction::HalfClose& half_close) {
  Stream(half_close.stream).HalfClose();
}

void SendDriver::Execute(const SendAction::CancelStream& cancel) { Stream(cancel.stream).Cancel(); }

void SendDriver::Execute(const SendAction::DropChannel&) {
  callbacks_.drop_channel();
  channels_.clear();  // a connection is closed with its last user
}

void SendDriver::Execute(const SendAction::Finished& finished) {
  callbacks_.finished(finished.status, finished.report);
}

grpc::ByteBuffer SendDriver::MakeBuffer(const internal::v1::KvDataHeader& header,
                                        const std::vector<KvLayerRows>& staged,
                                        std::function<void()> released) const {
  if (stager_.has_value()) return MakeKvBuffer(header, staged, std::move(released));
  return wire_.converts() ? MakeConvertedKvBuffer(header, blocks_, wire_, std::move(released))
                          : MakeKvBuffer(header, blocks_, std::move(released));
}

}  // namespace baton
