#include "tests/simulation/decode_worker/decode_pushes.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::KvDataHeader;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

namespace {

std::vector<grpc::Slice> Chop(const std::string& bytes, SimRandom& random) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const auto piece = static_cast<size_t>(random.Between(1, 500));
    const size_t count = std::min(bytes.size() - at, piece);
    slices.emplace_back(bytes.data() + at, count);
    at += count;
  }
  return slices;
}

ReceiveConfig ConfigFor(const SimAttempt& attempt, const KvLayout& layout,
                        const ReceiveLimits& limits) {
  return {.key = attempt.key,
          .capability = attempt.capability,
          .pusher = attempt.pusher,
          .secure = true,
          .identity = SimIdentity(),
          .shape = SimShape(layout),
          .layout = layout,
          .token_ids = attempt.token_ids,
          .page_hashes = PageHashes(SimIdentity(), "", "cpu", attempt.token_ids),
          .prompt_length = attempt.prompt_length,
          .choices = static_cast<int>(attempt.choices),
          .vocab_size = kSimVocab,
          .limits = limits};
}

// Whether it tells the head and the windows of the simulated model.
bool SameModel(const internal::v1::KvShape& shape) {
  const internal::v1::KvShape right = SimShape(SimLayout(kKvPageTokens));
  bool same = shape.head_dim() == right.head_dim() && shape.layer_states_size() == kSimLayers;
  for (int layer = 0; same && layer < kSimLayers; ++layer) {
    same = shape.layer_states(layer).window() == right.layer_states(layer).window();
  }
  return same;
}

}  // namespace

DecodePushes::DecodePushes(Sim& sim, Network& network, SimProcess& process, DecodeBlocks& blocks,
                           DecodeCallTable& table, Calls calls)
    : sim_(sim),
      network_(network),
      process_(process),
      blocks_(blocks),
      table_(table),
      calls_(std::move(calls)),
      window_bytes_(static_cast<uint64_t>(sim.random.Between(1'600, 6'000))),
      receive_timeout_(sim.random.Between(1'000'000, 30'000'000)) {}

DecodePushes::Push* DecodePushes::Find(SimAttemptId id) {
  const auto found = pushes_.find(id);
  return found == pushes_.end() ? nullptr : &found->second;
}

void DecodePushes::Crash() {
  streams_.clear();
  pushes_.clear();
}

void DecodePushes::Expect(SimAttemptId id) {
  SimDecodeCall& call = *table_.Find(id);
  const ReceiveLimits limits = {.window_bytes = window_bytes_,
                                .reservation_timeout = absl::Seconds(30),
                                .receive_timeout = absl::Microseconds(receive_timeout_)};
  ReceiveMachine receiver(ConfigFor(call.attempt, blocks_.layout(), limits), sim_.queue.time());
  Push push{.call = call, .receiver = std::move(receiver), .pages = CopiedPages(sim_)};
  Arm(id, pushes_.emplace(id, std::move(push)).first->second);
}

void DecodePushes::Cancel(SimAttemptId id, PushRefused::Reason reason) {
  Deliver(id, ReceiveEvent::Cancelled{reason});
}

void DecodePushes::Request(Network::StreamId stream, const std::string& bytes) {
  const auto bound = streams_.find(stream);
  if (bound == streams_.end()) return Open(stream, bytes);
  const SimAttemptId id = bound->second;
  Push* push = Find(id);
  if (push == nullptr) return;
  std::vector<grpc::Slice> slices = Chop(bytes, sim_.random);
  if (!IsKvData(slices)) {
    ReceiveEvent::ControlReceived control{stream, {}};
    if (!control.message.ParseFromString(bytes)) {
      return Deliver(id, ReceiveEvent::Malformed{stream, "not a message"});
    }
    return Deliver(id, control);
  }
  absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
  if (!data.ok()) {
    return Deliver(id, ReceiveEvent::Malformed{stream, std::string(data.status().message())});
  }
  KvDataHeader header;
  if (Crc32c(data->header.data(), data->header.size()) == data->header_crc32c &&
      header.ParseFromString(data->header)) {
    push->pages.Received(header);
  }
  const uint64_t message_id = next_message_id_++;
  const ReceiveEvent::DataReceived received{stream, message_id, data->header, data->header_crc32c,
                                            data->payload_bytes};
  push->messages.emplace(message_id, *std::move(data));
  Deliver(id, received);
}

// The first message of a stream must open or join a push that is expected.
void DecodePushes::Open(Network::StreamId stream, const std::string& bytes) {
  PushRequest message;
  PushRefused::Reason reason = PushRefused::REASON_OUT_OF_RANGE;
  if (message.ParseFromString(bytes) && (message.has_open() || message.has_join())) {
    const auto& key = message.has_open() ? message.open().key() : message.join().key();
    const auto verdict = table_.fence().Check(key);
    reason = verdict == AttemptFence::Verdict::kSuperseded ? PushRefused::REASON_SUPERSEDED
                                                           : PushRefused::REASON_UNKNOWN_ATTEMPT;
    const SimAttemptId own{static_cast<int>(key.request_id_low()), key.attempt()};
    Push* push = verdict == AttemptFence::Verdict::kSuperseded ? nullptr : Find(own);
    if (push != nullptr) {
      streams_[stream] = own;
      push->streams.insert(stream);
      const auto before = push->receiver.state();
      const std::string peer = network_.PeerOf(stream);
      Deliver(own, ReceiveEvent::ControlReceived{stream, message, peer});
      const SimAttempt& attempt = push->call.attempt;
      const bool opened = message.has_open() && push->receiver.state() != before;
      if (opened && message.open().capability() != attempt.capability) {
        sim_.Violation("a push opened without its attempt's secret");
      }
      const bool goes_on = opened && push->receiver.state() == ReceiveMachine::State::kOpen;
      if (goes_on && !SameModel(message.open().shape())) {
        sim_.Violation("a push of a model of another shape was opened");
      }
      if (opened && peer != attempt.pusher.peer_id()) {
        sim_.Violation("a push was opened by another than the router named");
      }
      return;
    }
  }
  ++sim_.coverage.refusals[static_cast<size_t>(reason)];
  PushResponse refusal;
  refusal.mutable_refused()->set_reason(reason);
  network_.Answer(stream, refusal.SerializeAsString());
  network_.End(stream);
}

void DecodePushes::Lost(Network::StreamId stream) {
  const auto bound = streams_.find(stream);
  if (bound == streams_.end()) return;
  const SimAttemptId id = bound->second;
  Deliver(id, ReceiveEvent::StreamLost{stream});
  if (Push* push = Find(id)) {
    push->streams.erase(stream);
    const bool goes_on = push->receiver.state() == ReceiveMachine::State::kReceiving;
    if (goes_on) ++sim_.coverage.joined_streams_lost;
  }
  streams_.erase(stream);
}

void DecodePushes::Deliver(SimAttemptId id, const ReceiveEvent::Any& event) {
  Push* push = Find(id);
  if (push == nullptr) return;
  const ReceiveMachine::State before = push->receiver.state();
  const std::vector<ReceiveAction::Any> actions = push->receiver.Handle(event, sim_.queue.time());
  const ReceiveMachine::State after = push->receiver.state();
  sim_.coverage.Count(before, event, after);
  sim_.Trace(40 + event.index(), static_cast<uint64_t>(id.first), static_cast<uint64_t>(after));
  for (const ReceiveAction::Any& action : actions) Execute(id, *push, action);
  if (!push->call.released || !push->messages.empty()) return Arm(id, *push);
  if (after != ReceiveMachine::State::kGone) sim_.Violation("blocks went back before the end");
  EraseSoon(id);
}

// Late messages still reach the machine for a moment, as one that was being read would.
void DecodePushes::EraseSoon(SimAttemptId id) {
  process_.After(sim_.random.Between(0, 2'000), [this, id] {
    const Push* over = Find(id);
    if (over == nullptr || !over->copies.empty() || !over->messages.empty()) return;
    for (const Network::StreamId stream : over->streams) {
      network_.End(stream);
      streams_.erase(stream);
    }
    pushes_.erase(id);
    table_.Erase(id);
  });
}

void DecodePushes::Execute(SimAttemptId id, Push& push, const ReceiveAction::Any& action) {
  const SimDecodeCall& call = push.call;
  if (std::holds_alternative<ReceiveAction::TakeBlocks>(action)) {
    process_.After(sim_.random.Between(10, 5'000), [this, id] { Grant(id); });
  } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
    Send(push, *send);
  } else if (const auto* end = std::get_if<ReceiveAction::EndStream>(&action)) {
    process_.After(sim_.random.Between(0, 1'000),
                   [this, stream = end->stream] { network_.End(stream); });
  } else if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
    BeginCopy(id, push, *copy);
  } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
    if (push.messages.erase(drop->message_id) != 1) sim_.Violation("a message is dropped twice");
    for (const auto& [copy_id, in_flight] : push.copies) {
      if (in_flight.message_id == drop->message_id) sim_.Violation("a message in copy is dropped");
    }
  } else if (const auto* commit = std::get_if<ReceiveAction::CommitSequence>(&action)) {
    if (call.committed || call.failed || call.released) sim_.Violation("a commit after the end");
    if (!push.copies.empty()) sim_.Violation("a commit under a copy");
    calls_.commit(id, *commit);
  } else if (const auto* failed = std::get_if<ReceiveAction::Failed>(&action)) {
    if (call.committed || call.failed) sim_.Violation("an attempt fails after its end");
    calls_.failed(id, failed->status);
    // The call ends with it, and so does the attempt.
    process_.After(sim_.random.Between(1, 200),
                   [this, id] { Deliver(id, ReceiveEvent::Cancelled{}); });
  } else if (const auto* release = std::get_if<ReceiveAction::ReleaseBlocks>(&action)) {
    if (call.released) sim_.Violation("blocks are given back twice");
    if (!push.copies.empty()) sim_.Violation("blocks are given back under a copy");
    calls_.release(id, *release);
  }
}

void DecodePushes::Grant(SimAttemptId id) {
  const Push* push = Find(id);
  if (push == nullptr || push->receiver.state() != ReceiveMachine::State::kOpen) return;
  const std::optional<int> start_token = calls_.take_blocks(id);
  if (start_token.has_value()) Deliver(id, ReceiveEvent::Granted{*start_token});
}

void DecodePushes::Send(const Push& push, const ReceiveAction::Send& send) {
  if (send.message.has_refused()) {
    ++sim_.coverage.refusals[static_cast<size_t>(send.message.refused().reason())];
  }
  if (send.message.has_ack()) push.pages.CheckAck(send.message.ack().sequence_number());
  network_.Answer(send.stream, send.message.SerializeAsString());
}

// I3: only into blocks of this attempt, in the life in which it took them.
bool DecodePushes::MayWrite(const SimDecodeCall& call, const LayerTokens& range) const {
  if (!call.granted || call.released || call.committed) return false;
  const int tokens = static_cast<int>(call.attempt.token_ids.size());
  const int end = range.tokens.end;
  if (range.layer < 0 || range.layer >= blocks_.layout().layers ||
      range.tokens.begin < call.start_token ||
      range.tokens.begin < SimFirstHandedOff(range.layer, tokens) || end > tokens) {
    return false;
  }
  for (int token = range.tokens.begin; token < end; token += kKvPageTokens) {
    if (!blocks_.Owns(call.held, call.held.EntryOf(range.layer, token))) return false;
  }
  return true;
}

void DecodePushes::BeginCopy(SimAttemptId id, Push& push, const ReceiveAction::Copy& copy) {
  ++sim_.coverage.copies;
  if (push.messages.count(copy.message_id) == 0) sim_.Violation("a copy without its message");
  if (copy.ranges.empty()) sim_.Violation("a copy of nothing");
  for (const LayerTokens& range : copy.ranges) {
    if (!MayWrite(push.call, range)) {
      return sim_.Violation("a copy into somebody else's block");
    }
    push.pages.BeginCopy(range);
  }
  push.copies[copy.copy_id] = copy;
  const Micros delay = sim_.Strikes(Fault::kSlowCopy) ? sim_.random.Between(1'000, 5'000'000)
                                                      : sim_.random.Between(5, 300);
  process_.After(delay, [this, id, copy_id = copy.copy_id] { FinishCopy(id, copy_id); });
}

void DecodePushes::FinishCopy(SimAttemptId id, uint64_t copy_id) {
  Push* push = Find(id);
  if (push == nullptr || push->copies.count(copy_id) == 0) {
    return sim_.Violation("a copy outlives its attempt");
  }
  const ReceiveAction::Copy copy = push->copies.at(copy_id);
  push->copies.erase(copy_id);
  const SimDecodeCall& call = push->call;
  for (const LayerTokens& range : copy.ranges) {
    if (!MayWrite(call, range)) return sim_.Violation("a late write into somebody else's block");
  }
  ReceiveEvent::CopyDone done =
      CopyPayload(copy, push->messages.at(copy.message_id), call.held.memory);
  if (sim_.Strikes(Fault::kFailedCopy)) done = {copy_id, false, {}, {}};
  for (const LayerTokens& range : copy.ranges) {
    push->pages.EndCopy(range, [&](TokenRange tokens) {
      return done.ok && call.attempt.content
                            ->ForgersOf(call.held.memory, range.layer, tokens.begin, tokens.end)
                            .has_value();
    });
  }
  Deliver(id, done);
}

void DecodePushes::Arm(SimAttemptId id, Push& push) {
  const absl::Time deadline = push.receiver.NextDeadline();
  if (deadline == absl::InfiniteFuture()) return;
  const Micros at = absl::ToInt64Microseconds(deadline - absl::UnixEpoch()) + 1;
  if (push.timer >= sim_.queue.now() && push.timer <= at) return;
  push.timer = at;
  process_.After(at - sim_.queue.now(), [this, id] {
    Push* due = Find(id);
    if (due == nullptr) return;
    due->timer = -1;
    if (due->receiver.NextDeadline() <= sim_.queue.time()) {
      return Deliver(id, ReceiveEvent::Tick{});
    }
    Arm(id, *due);
  });
}

}  // namespace baton
