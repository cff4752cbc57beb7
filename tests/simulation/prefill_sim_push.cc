// The part of a simulated prefill worker that pushes, the first tokens last.
#include <algorithm>
#include <utility>

#include "common/protocol/worker_status.h"
#include "tests/simulation/prefill_sim.h"
#include "tests/simulation/sim_open.h"
#include "tests/support/push_messages.h"

namespace baton {

using internal::v1::PrefillResponse;
using internal::v1::PushAbort;
using internal::v1::PushResponse;

void PrefillSim::Answer(Network::StreamId stream, const std::string& bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  PushResponse answer;
  if (!answer.ParseFromString(bytes)) answer.Clear();
  const auto [key, number] = found->second;
  Deliver(key, SendEvent::Response{answer, number});
}

void PrefillSim::Ended(Network::StreamId stream, const absl::Status& status) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const auto [key, number] = found->second;
  streams_.erase(found);
  if (Push* push = Find(key)) push->streams.erase(number);
  Deliver(key, SendEvent::StreamEnded{status, number});
}

void PrefillSim::Deliver(Key key, const SendEvent::Any& event) {
  Push* push = Find(key);
  if (push == nullptr) return;
  const SendMachine::State before = push->sender->state();
  const std::vector<SendAction::Any> actions = push->sender->Handle(event, sim_.queue.time());
  const SendMachine::State after = push->sender->state();
  sim_.coverage.Count(before, event, after);
  sim_.Trace(10 + event.index(), static_cast<uint64_t>(key.first), static_cast<uint64_t>(after));
  for (const SendAction::Any& action : actions) Execute(*push, action);
  if (!push->sender->gone()) return Arm(key, *push);
  if (!push->blocks_back || push->live_messages > 0) {
    sim_.Violation("a sender is gone before its blocks are back");
  }
  if (!push->streams.empty()) sim_.Violation("a sender is gone before its streams");
  pushes_.erase(key);
}

// As a Prefill call tells the router.
void PrefillSim::PushFinished(Push& push, const absl::Status& status) {
  push.engine_stopped = true;
  push.pushed = true;
  if (status.ok()) return MaybeFinish({push.attempt.request, push.attempt.attempt});
  EndCall(push, TransferFailed(status, core_.id().address()));
}

void PrefillSim::PromptDone(Key key) {
  Push* push = Find(key);
  if (push == nullptr || push->call_over) return;
  const auto tokens = static_cast<int>(push->attempt.token_ids.size());
  if (IsDeadly(push->attempt, OutputIndex(push->attempt))) {
    ++push->attempt.right->kills;
    return sim_.kill_worker(true, index_);
  }
  std::vector<internal::v1::OutputToken> first_tokens;  // by choice
  bool all_end = true;
  for (uint32_t i = 0; i < push->attempt.choices; ++i) {
    PrefillResponse response;
    *response.mutable_first_token() =
        TokenAfter(push->attempt, push->attempt.key.choice() + i, tokens);
    Tell(*push, response);
    first_tokens.push_back(response.first_token());
    all_end &= response.first_token().ends_sequence();
  }
  if (push->sender == nullptr) return MaybeFinish(key);
  if (all_end) return Deliver(key, SendEvent::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  for (const internal::v1::OutputToken& token : first_tokens) {
    Deliver(key, SendEvent::FirstToken{token});
  }
}

void PrefillSim::Execute(Push& push, const SendAction::Any& action) {
  const auto send = [&](int stream, const internal::v1::PushRequest& message) {
    if (push.streams.count(stream) == 0) return;
    network_.Send(push.streams[stream],
                  {.is_data = false,
                   .bytes = [bytes = message.SerializeAsString()] { return bytes; },
                   .released = nullptr});
  };
  if (const auto* open = std::get_if<SendAction::OpenStream>(&action)) {
    const Network::StreamId id = network_.Open(index_, push.attempt.decode);
    push.streams[open->stream] = id;
    streams_[id] = {Key{push.attempt.request, push.attempt.attempt}, open->stream};
    if (open->stream > 0) ++sim_.coverage.joins;
    send(open->stream, open->first);
  } else if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
    SendData(push, *data);
  } else if (const auto* control = std::get_if<SendAction::SendControl>(&action)) {
    if (control->drop_queued) {
      for (const auto& [number, id] : push.streams) network_.DropQueuedData(id);
    }
    send(0, control->message);
  } else if (const auto* close = std::get_if<SendAction::HalfClose>(&action)) {
    if (push.streams.count(close->stream) > 0) network_.HalfClose(push.streams[close->stream]);
  } else if (const auto* cancel = std::get_if<SendAction::CancelStream>(&action)) {
    if (push.streams.count(cancel->stream) > 0) network_.Cancel(push.streams[cancel->stream]);
  } else if (std::holds_alternative<SendAction::DropChannel>(action)) {
    for (const auto& [number, id] : push.streams) network_.DropChannel(id);
  } else if (const auto* finished = std::get_if<SendAction::Finished>(&action)) {
    PushFinished(push, finished->status);
  } else if (std::holds_alternative<SendAction::ReleaseBlocks>(action)) {
    if (push.blocks_back) sim_.Violation("a sender gives its blocks back twice");
    if (push.live_messages > 0) sim_.Violation("a sender gives blocks back under live slices");
    GiveBlocksBack(push);
  }
}

void PrefillSim::SendData(Push& push, const SendAction::SendData& data) {
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
                     [this, key, blocks, life = core_.process().life()] {
                       if (life != core_.process().life()) return;
                       core_.process().Post([this, key, blocks] {
                         for (const int32_t block : blocks) {
                           --live_slices_[static_cast<size_t>(block)];
                         }
                         Push* released = Find(key);
                         if (released == nullptr) {
                           return sim_.Violation("slices outlive their sender");
                         }
                         --released->live_messages;
                         Deliver(key, SendEvent::SlicesReleased{Intact(*released)});
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
  core_.process().After(at - sim_.queue.now(), [this, key] {
    Push* due = Find(key);
    if (due == nullptr) return;
    due->timer = -1;
    if (due->sender->NextDeadline() <= sim_.queue.time()) return Deliver(key, SendEvent::Tick{});
    Arm(key, *due);
  });
}

}  // namespace baton
