#include "tests/decode_worker/handoff_pair/pair_sender.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"

#include "common/handoff/carried_tokens.h"
#include "prefill_worker/kv_buffer.h"

namespace baton {

using internal::v1::PushAbort;

void PairSender::Start(const internal::v1::PushOpen& open, const std::vector<int32_t>& token_ids) {
  machine_.emplace(SendConfig{.open = open,
                              .layout = memory_.blocks.layout,
                              .token_ids = token_ids,
                              .limits = {.max_payload_bytes = run_.options.max_payload_bytes,
                                         .min_payload_bytes = run_.options.min_payload_bytes},
                              .streams = run_.options.streams});
  AddEngineEvents();
  generations_.assign(memory_.blocks.block_table.size(), 1);
  if (memory_.staging == nullptr) return;
  stager_.emplace(LayerStager::Options{
      .staging = memory_.staging.get(),
      .wire = KvWireFormat(memory_.blocks.layout, KvType::kF16),
      .post = [this](LayerStager::Event event) { staged_.push_back(std::move(event)); },
      .block_generation = [](int32_t) { return 1u; }});
}

void PairSender::AddEngineEvents() {
  const PairOptions& options = run_.options;
  engine_events_.push_back(SendEvent::Begin{});
  for (int first = 0; first < options.tokens;) {
    const int end = first == 0 && options.cached_by_sender > 0
                        ? options.cached_by_sender
                        : std::min(options.tokens, (first / 64 + 1) * 64);
    const KvLayout& layout = memory_.blocks.layout;
    for (int layer = 0; layer < layout.layers; ++layer) {
      const int begin = std::max(first, FirstHandedOff(layout, layer, options.tokens));
      if (begin >= end) continue;
      SendEvent::LayerReady ready{{layer, {begin, end}}, {}};
      for (const TokenRange page : PagesOf({begin, end})) {
        ready.page_crcs.push_back(memory_.blocks.PageCrc(layer, page));
      }
      engine_events_.push_back(ready);
    }
    engine_events_.push_back(SendEvent::ChunkReady{end});
    first = end;
  }
  if (options.finish_at_first_token) {
    engine_events_.push_back(SendEvent::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  } else {
    SendEvent::FirstToken first_token;
    first_token.token.mutable_token()->set_token_id(5);
    engine_events_.push_back(first_token);
  }
}

void PairSender::NextEngineEvent() {
  const SendEvent::Any& event = engine_events_[next_engine_event_];
  if (!IsStaged(event)) Deliver(event);
  ++next_engine_event_;
}

bool PairSender::IsStaged(const SendEvent::Any& event) {
  if (!stager_.has_value()) return false;
  if (const auto* layer = std::get_if<SendEvent::LayerReady>(&event)) {
    stager_->Add(*layer, memory_.backend->copies().Mark());
    return true;
  }
  const auto* chunk = std::get_if<SendEvent::ChunkReady>(&event);
  if (chunk != nullptr) stager_->Add(*chunk);
  return chunk != nullptr;
}

void PairSender::EndCopy() { EXPECT_TRUE(memory_.backend->copies().EndOne()); }

void PairSender::NextStaged() {
  stager_->On(std::move(staged_.front()));
  staged_.pop_front();
}

void PairSender::Deliver(const SendEvent::Any& event) {
  for (const SendAction::Any& action : machine_->Handle(event, run_.now)) {
    if (const auto* open = std::get_if<SendAction::OpenStream>(&action)) {
      network_.Open(open->stream, open->first);
    } else if (const auto* control = std::get_if<SendAction::SendControl>(&action)) {
      network_.SendControl(control->message, control->drop_queued);
    } else if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
      SendData(*data);
    } else if (const auto* cancel = std::get_if<SendAction::CancelStream>(&action)) {
      network_.End(cancel->stream);
    } else if (std::holds_alternative<SendAction::DropChannel>(action)) {
      network_.EndAll();
    } else if (const auto* finished = std::get_if<SendAction::Finished>(&action)) {
      EXPECT_FALSE(status_) << "finished once";
      status_ = finished->status;
      report_ = finished->report;
    } else if (std::holds_alternative<SendAction::ReleaseBlocks>(action)) {
      EXPECT_EQ(slices_alive_, 0) << "blocks given back under live slices";
      EXPECT_FALSE(released_ || may_release_);
      may_release_ = true;
    }
  }
}

void PairSender::SendData(const SendAction::SendData& data) {
  EXPECT_LE(data.payload_bytes, run_.options.max_payload_bytes);
  ++slices_alive_;
  oracle_.Sent(data.header);
  const grpc::ByteBuffer slices = stager_.has_value()
                                      ? MakeKvBuffer(data.header, stager_->Send(data.header), [] {})
                                      : MakeKvBuffer(data.header, memory_.blocks, [] {});
  network_.SendData(data.stream, slices, [this, number = data.header.sequence_number()] {
    --slices_alive_;
    if (stager_.has_value()) stager_->Released(number);
    Deliver(SendEvent::SlicesReleased{});
  });
}

void PairSender::Settle() {
  if (stager_.has_value()) {
    for (const SendEvent::Any& event :
         stager_->Advance(*machine_, {memory_.device, generations_})) {
      Deliver(event);
    }
    if (!stager_->idle()) return;
  }
  if (!std::exchange(may_release_, false)) return;
  released_ = true;
  if (!stager_.has_value()) return;
  EXPECT_EQ(memory_.backend->copies().to_host(), 0) << "blocks given back under a copy";
}

void PairSender::CheckAtRest() const {
  EXPECT_TRUE(machine_->gone());
  EXPECT_TRUE(released_);
  EXPECT_EQ(slices_alive_, 0);
}

}  // namespace baton
