#include "tests/simulation/prefill_worker/prefill_pushes.h"

#include <utility>

#include "tests/simulation/sim_open.h"
#include "tests/support/push_messages.h"

namespace baton {

using internal::v1::PushResponse;

PrefillPushes::PrefillPushes(Sim& sim, Network& network, WorkerCore& core, PrefillBlocks& blocks,
                             PrefillCallTable& table, Calls calls)
    : sim_(sim),
      network_(network),
      core_(core),
      blocks_(blocks),
      table_(table),
      calls_(std::move(calls)),
      max_payload_bytes_(static_cast<size_t>(sim.random.Between(256, 700))),
      min_payload_bytes_(static_cast<size_t>(sim.random.Between(0, 600))),
      max_streams_(static_cast<int>(sim.random.Between(1, 4))) {}

PrefillPushes::Push* PrefillPushes::Find(SimAttemptId id) {
  const auto found = pushes_.find(id);
  return found == pushes_.end() ? nullptr : &found->second;
}

void PrefillPushes::Crash() {
  streams_.clear();
  pushes_.clear();
}

void PrefillPushes::Add(SimAttemptId id) {
  SimPrefillCall& call = *table_.Find(id);
  SendMachine sender(SendConfig{
      .open = SimOpen(sim_, call.attempt, blocks_.layout()),
      .layout = blocks_.layout(),
      .token_ids = call.attempt.token_ids,
      .limits = {.max_payload_bytes = max_payload_bytes_, .min_payload_bytes = min_payload_bytes_},
      .choices = static_cast<int>(call.attempt.choices),
      .streams = max_streams_});
  pushes_.emplace(id, Push{.call = call, .sender = std::move(sender)});
}

void PrefillPushes::Answer(Network::StreamId stream, const std::string& bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  PushResponse answer;
  if (!answer.ParseFromString(bytes)) answer.Clear();
  const auto [id, number] = found->second;
  Deliver(id, SendEvent::Response{answer, number});
}

void PrefillPushes::Ended(Network::StreamId stream, const absl::Status& status) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const auto [id, number] = found->second;
  streams_.erase(found);
  if (Push* push = Find(id)) push->streams.erase(number);
  Deliver(id, SendEvent::StreamEnded{status, number});
}

void PrefillPushes::Deliver(SimAttemptId id, const SendEvent::Any& event) {
  Push* push = Find(id);
  if (push == nullptr) return;
  const SendMachine::State before = push->sender.state();
  const std::vector<SendAction::Any> actions = push->sender.Handle(event, sim_.queue.time());
  const SendMachine::State after = push->sender.state();
  sim_.coverage.Count(before, event, after);
  sim_.Trace(10 + event.index(), static_cast<uint64_t>(id.first), static_cast<uint64_t>(after));
  for (const SendAction::Any& action : actions) Execute(*push, action);
  if (!push->sender.gone()) return Arm(id, *push);
  if (!push->call.blocks_back || push->live_messages > 0) {
    sim_.Violation("a sender is gone before its blocks are back");
  }
  if (!push->streams.empty()) sim_.Violation("a sender is gone before its streams");
  pushes_.erase(id);
  table_.calls().erase(id);
}

void PrefillPushes::SendControl(const Push& push, int stream,
                                const internal::v1::PushRequest& message) {
  const auto open = push.streams.find(stream);
  if (open == push.streams.end()) return;
  network_.Send(open->second, {.is_data = false,
                               .bytes = [bytes = message.SerializeAsString()] { return bytes; },
                               .released = nullptr});
}

void PrefillPushes::Execute(Push& push, const SendAction::Any& action) {
  const SimAttemptId id = push.call.attempt.id();
  if (const auto* open = std::get_if<SendAction::OpenStream>(&action)) {
    const Network::StreamId stream = network_.Open(core_.id().index, push.call.attempt.decode);
    push.streams[open->stream] = stream;
    streams_[stream] = {id, open->stream};
    if (open->stream > 0) ++sim_.coverage.joins;
    SendControl(push, open->stream, open->first);
  } else if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
    SendData(push, *data);
  } else if (const auto* control = std::get_if<SendAction::SendControl>(&action)) {
    if (control->drop_queued) {
      for (const auto& [number, stream] : push.streams) network_.DropQueuedData(stream);
    }
    SendControl(push, 0, control->message);
  } else if (const auto* close = std::get_if<SendAction::HalfClose>(&action)) {
    if (push.streams.count(close->stream) > 0) network_.HalfClose(push.streams[close->stream]);
  } else if (const auto* cancel = std::get_if<SendAction::CancelStream>(&action)) {
    if (push.streams.count(cancel->stream) > 0) network_.Cancel(push.streams[cancel->stream]);
  } else if (std::holds_alternative<SendAction::DropChannel>(action)) {
    for (const auto& [number, stream] : push.streams) network_.DropChannel(stream);
  } else if (const auto* finished = std::get_if<SendAction::Finished>(&action)) {
    calls_.finished(id, finished->status);
  } else if (std::holds_alternative<SendAction::ReleaseBlocks>(action)) {
    if (push.call.blocks_back) sim_.Violation("a sender gives its blocks back twice");
    if (push.live_messages > 0) sim_.Violation("a sender gives blocks back under live slices");
    calls_.give_blocks_back(id);
  }
}

void PrefillPushes::SendData(Push& push, const SendAction::SendData& data) {
  const SimAttemptId id = push.call.attempt.id();
  if (data.payload_bytes > max_payload_bytes_) sim_.Violation("a payload above its limit");
  ++push.live_messages;
  const auto first = static_cast<int>(data.header.first_token());
  const int end = first + static_cast<int>(data.header.token_count());
  const LayerTokens rows{static_cast<int>(data.header.first_layer()), {first, end}};
  const std::vector<int32_t> blocks =
      blocks_.HoldSlices(push.call.held, rows, static_cast<int>(data.header.layer_count()));
  const auto stream = push.streams.find(data.stream);
  network_.Send(stream == push.streams.end() ? 0 : stream->second,
                {.is_data = true,
                 .bytes = [this, id, header = data.header] { return Flatten(id, header); },
                 .released =
                     [this, id, blocks, life = core_.process().life()] {
                       if (life != core_.process().life()) return;
                       core_.process().Post([this, id, blocks] { SlicesReleased(id, blocks); });
                     }});
}

void PrefillPushes::SlicesReleased(SimAttemptId id, const std::vector<int32_t>& blocks) {
  blocks_.ReleaseSlices(blocks);
  Push* push = Find(id);
  if (push == nullptr) return sim_.Violation("slices outlive their sender");
  --push->live_messages;
  Deliver(id, SendEvent::SlicesReleased{blocks_.Intact(push->call.held)});
}

// The bytes of a data message as they are in the blocks when the network takes them.
std::string PrefillPushes::Flatten(SimAttemptId id, const internal::v1::KvDataHeader& header) {
  const Push* push = Find(id);
  if (push == nullptr || push->call.blocks_back) {
    sim_.Violation("the network reads blocks that were given back");
    return "?";
  }
  const SimHolding& held = push->call.held;
  if (!blocks_.Intact(held)) sim_.Violation("the network reads a block in its next life");
  return EncodeData(header, held.memory);
}

void PrefillPushes::Arm(SimAttemptId id, Push& push) {
  const absl::Time deadline = push.sender.NextDeadline();
  if (deadline == absl::InfiniteFuture()) return;
  const Micros at = absl::ToInt64Microseconds(deadline - absl::UnixEpoch()) + 1;
  if (push.timer >= sim_.queue.now() && push.timer <= at) return;
  push.timer = at;
  core_.process().After(at - sim_.queue.now(), [this, id] {
    Push* due = Find(id);
    if (due == nullptr) return;
    due->timer = -1;
    if (due->sender.NextDeadline() <= sim_.queue.time()) return Deliver(id, SendEvent::Tick{});
    Arm(id, *due);
  });
}

}  // namespace baton
