#include "tests/simulation/interleavings/interleaved_sender.h"

#include "absl/strings/str_cat.h"

#include "tests/simulation/interleavings/machine_state.h"
#include "tests/simulation/interleavings/push_of_request.h"

namespace baton {

void InterleavedSender::Start(InterleavedStream& stream, InterleavedBlocks& blocks) {
  blocks.prefill_owner = request_;
  machine_ = std::make_shared<SendMachine>(
      SendConfig{.open = InterleavedOpen(request_, messages_),
                 .layout = InterleavedLayout(),
                 .token_ids = InterleavedTokens(request_, messages_),
                 .limits = {.max_payload_bytes = InterleavedPageBytes(), .min_payload_bytes = 0}});
  Handle(SendEvent::Begin{}, stream, blocks);
}

void InterleavedSender::Compute(InterleavedStream& stream, InterleavedBlocks& blocks) {
  computed_ = true;
  if (blocks.prefill_owner != request_) return;  // its push is over, and its blocks with it
  blocks.prefill_content = request_;
  const int tokens = messages_ * kKvPageTokens;
  SendEvent::LayerReady ready{{0, {0, tokens}}, {}};
  for (int page = 0; page < messages_; ++page) {
    ready.page_crcs.push_back(InterleavedCrc(request_, page));
  }
  Handle(ready, stream, blocks);
  Handle(SendEvent::ChunkReady{tokens}, stream, blocks);
}

void InterleavedSender::MakeFirstToken(InterleavedStream& stream, InterleavedBlocks& blocks) {
  first_token_made_ = true;
  SendEvent::FirstToken first;
  first.token.mutable_token()->set_token_id(5);
  Handle(first, stream, blocks);
}

void InterleavedSender::Handle(const SendEvent::Any& event, InterleavedStream& stream,
                               InterleavedBlocks& blocks, absl::Time now) {
  if (!runs()) return;
  auto next = std::make_shared<SendMachine>(*machine_);
  const std::vector<SendAction::Any> actions = next->Handle(event, now);
  machine_ = next;
  for (const SendAction::Any& action : actions) Execute(action, stream, blocks);
  if (next->gone()) over_ = true;
}

void InterleavedSender::Execute(const SendAction::Any& action, InterleavedStream& stream,
                                InterleavedBlocks& blocks) {
  if (const auto* open = std::get_if<SendAction::OpenStream>(&action)) {
    stream.Open(open->first);
  } else if (const auto* control = std::get_if<SendAction::SendControl>(&action)) {
    stream.SendControl(control->message, control->drop_queued);
  } else if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
    if (blocks.prefill_owner != request_) {
      blocks.Violation("a message from blocks that were given back");
    }
    stream.SendData(data->header, data->payload_bytes);
  } else if (std::holds_alternative<SendAction::HalfClose>(action)) {
    stream.HalfClose();
  } else if (std::holds_alternative<SendAction::CancelStream>(action) ||
             std::holds_alternative<SendAction::DropChannel>(action)) {
    stream.End();
  } else if (std::holds_alternative<SendAction::ReleaseBlocks>(action)) {
    if (stream.live_slices() > 0) blocks.Violation("blocks given back under live slices");
    if (blocks.prefill_owner != request_) blocks.Violation("blocks given back twice");
    blocks.prefill_owner = -1;
  }
}

void InterleavedSender::AppendState(std::string& out) const {
  absl::StrAppend(&out, started(), ",", computed_, ",", first_token_made_, ",", over_, ",");
  if (runs()) MachineState::Append(*machine_, out);
}

}  // namespace baton
