#include "prefill_worker/send_driver.h"

#include <utility>

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

size_t SlotsOf(const KvStaging* staging) {
  return staging == nullptr ? 0 : static_cast<size_t>(staging->slot_count());
}

// The end of a push whose thread lost messages of the prefill.
SendEvent::Abort FellBehind() {
  return {internal::v1::PushAbort::REASON_FAILED,
          absl::UnavailableError("the push fell behind the prefill: too many computed layers wait "
                                 "to be sent")};
}

}  // namespace

SendDriver::SendDriver(Options options)
    : machine_(WithStreams(options.config, options.channels.size())),
      blocks_{options.cache_base, options.config.layout, {}},
      wire_(options.config.layout, *KvTypeFromName(options.config.open.wire_dtype())),
      staged_(options.staging != nullptr),
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
  SendInbox::Layer message{.ready = std::move(layer),
                           .block_table = {},
                           .generations = {},
                           .copies_after = copies_after};
  if (block_table.size() > posted_blocks_) {
    posted_blocks_ = block_table.size();
    message.block_table.assign(block_table.begin(), block_table.end());
    for (const int32_t block : block_table) {
      message.generations.push_back(inbox_->GenerationOf(block));
    }
  }
  inbox_->Post(std::move(message));
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
  if (!layer.block_table.empty()) SetBlocks(std::move(layer.block_table), layer.generations);
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
    LogError("a KV block was given to somebody else while a push was sending it");
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

// Blocks that were posted before keep the generation they had then.
void SendDriver::SetBlocks(std::vector<int32_t> block_table,
                           const std::vector<uint32_t>& generations) {
  std::vector<uint32_t> merged = generations;
  for (size_t i = 0; i < block_generations_.size(); ++i) {
    if (blocks_.block_table[i] == block_table[i]) merged[i] = block_generations_[i];
  }
  blocks_.block_table = std::move(block_table);
  block_generations_ = std::move(merged);
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
  streams_[index] = std::make_shared<SendStream>(channels_[index], std::move(callbacks));
  streams_[index]->Start();
  streams_[index]->Write(Serialize(open.first), false);
}

void SendDriver::Execute(const SendAction::SendControl& control) {
  if (control.drop_queued) Stream(0).DropQueuedData();
  Stream(0).Write(Serialize(control.message), false);
}

void SendDriver::Execute(const SendAction::SendData& data) {
  const TokenRange tokens = TokensOf(data.header);
  const int block_size = blocks_.layout.block_size;
  std::vector<BlockRef> held;
  for (int i = tokens.begin / block_size; i * block_size < tokens.end; ++i) {
    const auto index = static_cast<size_t>(i);
    held.push_back({blocks_.block_table[index], block_generations_[index]});
  }
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
  if (stager_.has_value()) {
    return wire_.converts() ? MakeConvertedKvBuffer(header, staged, wire_, std::move(released))
                            : MakeKvBuffer(header, staged, std::move(released));
  }
  return wire_.converts() ? MakeConvertedKvBuffer(header, blocks_, wire_, std::move(released))
                          : MakeKvBuffer(header, blocks_, std::move(released));
}

}  // namespace baton
