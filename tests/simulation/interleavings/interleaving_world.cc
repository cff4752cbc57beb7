#include "tests/simulation/interleavings/interleaving_world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton {

using internal::v1::PushAbort;

InterleavingWorld::InterleavingWorld(const InterleavingOptions& options)
    : pushes_{Push{{0, options.messages}, {}, {0, options.messages}},
              Push{{1, options.messages}, {}, {1, options.messages}}},
      disturbances_left_(options.disturbances) {
  blocks_.decode_content.assign(static_cast<size_t>(options.messages), -1);
}

void InterleavingWorld::Take(const Choice& choice) {
  if (Disturbs(choice.kind)) return Disturb(choice);
  auto& [sender, stream, receiver] = At(choice.request);
  switch (choice.kind) {
    case Kind::kStartDecode:
      return receiver.Start(blocks_);
    case Kind::kStartPrefill:
      return sender.Start(stream, blocks_);
    case Kind::kGrant:
      return receiver.Grant(stream, blocks_);
    case Kind::kCompute:
      return sender.Compute(stream, blocks_);
    case Kind::kFirstToken:
      return sender.MakeFirstToken(stream, blocks_);
    case Kind::kDeliver:
      return receiver.Deliver(stream, blocks_);
    case Kind::kAnswer:
      return sender.Handle(SendEvent::Response{stream.TakeAnswer(), 0}, stream, blocks_);
    case Kind::kReleaseSlices:
      stream.ReleaseOne();
      return sender.Handle(SendEvent::SlicesReleased{}, stream, blocks_);
    case Kind::kCopyDone:
      return receiver.FinishCopy(choice.copy_id, stream, blocks_);
    case Kind::kNoticeAtPrefill:
      stream.NoticeAtPrefill();
      return sender.Handle(SendEvent::StreamEnded{absl::UnavailableError("ended"), 0}, stream,
                           blocks_);
    case Kind::kNoticeAtDecode:
      stream.NoticeAtDecode();
      return receiver.Handle(ReceiveEvent::StreamLost{InterleavedReceiver::kStream}, stream,
                             blocks_);
    default:  // kDecodeEnds
      return receiver.Handle(ReceiveEvent::Cancelled{}, stream, blocks_);
  }
}

void InterleavingWorld::Disturb(const Choice& choice) {
  if (disturbances_left_ > 0) --disturbances_left_;
  auto& [sender, stream, receiver] = At(choice.request);
  switch (choice.kind) {
    case Kind::kCancelAtPrefill:
      return sender.Handle(SendEvent::Abort{PushAbort::REASON_CANCELLED}, stream, blocks_);
    case Kind::kCancelAtDecode:
      return receiver.Handle(ReceiveEvent::Cancelled{}, stream, blocks_);
    case Kind::kCut:
      return stream.End();
    case Kind::kKillPrefill:
      return KillPrefill();
    case Kind::kKillDecode:
      return KillDecode();
    case Kind::kPrefillTimeout:
      return sender.Handle(SendEvent::Tick{}, stream, blocks_, sender.deadline());
    default:  // kDecodeTimeout
      return receiver.Handle(ReceiveEvent::Tick{}, stream, blocks_, receiver.deadline());
  }
}

void InterleavingWorld::KillPrefill() {
  blocks_.prefill_owner = -1;
  for (Push& push : pushes_) {
    if (!push.sender.runs()) continue;
    push.sender.Kill();
    push.stream.LosePrefill();
  }
}

void InterleavingWorld::KillDecode() {
  blocks_.decode_owner = -1;
  for (Push& push : pushes_) {
    if (!push.receiver.runs()) continue;
    push.receiver.Kill();
    push.stream.LoseDecode();
  }
}

void InterleavingWorld::ChoicesOf(int request, std::vector<Choice>& choices) const {
  const auto& [sender, stream, receiver] = At(request);
  const auto add = [&choices, request](bool possible, Kind kind, uint64_t copy_id = 0) {
    if (possible) choices.push_back({kind, request, copy_id});
  };
  add(!receiver.started() && blocks_.decode_owner < 0, Kind::kStartDecode);
  add(receiver.started() && !sender.started() && blocks_.prefill_owner < 0, Kind::kStartPrefill);
  add(receiver.wants_blocks(), Kind::kGrant);
  add(sender.runs() && !sender.computed(), Kind::kCompute);
  add(sender.runs() && sender.computed() && !sender.first_token_made(), Kind::kFirstToken);
  add(stream.has_messages(), Kind::kDeliver);
  add(sender.runs() && stream.prefill_open() && stream.has_answers(), Kind::kAnswer);
  add(sender.runs() && stream.released_slices() > 0, Kind::kReleaseSlices);
  for (const auto& [id, copy] : receiver.copies()) add(true, Kind::kCopyDone, id);
  add(sender.runs() && stream.prefill_notice() && !stream.has_answers(), Kind::kNoticeAtPrefill);
  add(stream.decode_notice(), Kind::kNoticeAtDecode);
  add(receiver.runs() && receiver.committed(), Kind::kDecodeEnds);
}

void InterleavingWorld::DisturbancesOf(int request, std::vector<Choice>& choices) const {
  const auto& [sender, stream, receiver] = At(request);
  const auto add = [&choices, request](bool possible, Kind kind) {
    if (possible) choices.push_back({kind, request, 0});
  };
  add(sender.runs(), Kind::kCancelAtPrefill);
  add(receiver.runs() && !receiver.committed(), Kind::kCancelAtDecode);
  add(stream.prefill_open() && stream.decode_open(), Kind::kCut);
  add(sender.runs(), Kind::kKillPrefill);
  add(receiver.runs(), Kind::kKillDecode);
  add(sender.runs() && sender.deadline() < absl::InfiniteFuture(), Kind::kPrefillTimeout);
  add(receiver.runs() && receiver.deadline() < absl::InfiniteFuture(), Kind::kDecodeTimeout);
}

std::vector<InterleavingWorld::Choice> InterleavingWorld::Choices() const {
  std::vector<Choice> choices;
  for (int request = 0; request < kRequests; ++request) ChoicesOf(request, choices);
  const bool time_passes = choices.empty();
  for (int request = 0; request < kRequests; ++request) {
    std::vector<Choice> more;
    DisturbancesOf(request, more);
    for (const Choice& choice : more) {
      const bool timeout =
          choice.kind == Kind::kPrefillTimeout || choice.kind == Kind::kDecodeTimeout;
      if (disturbances_left_ > 0 || (time_passes && timeout)) choices.push_back(choice);
    }
  }
  return choices;
}

std::string InterleavingWorld::State() const {
  std::string out;
  const auto add = [&out](const auto&... parts) { (absl::StrAppend(&out, parts, ","), ...); };
  add(disturbances_left_, blocks_.prefill_owner, blocks_.prefill_content, blocks_.decode_owner);
  for (const int content : blocks_.decode_content) add(content);
  for (const Push& push : pushes_) {
    push.stream.AppendState(out);
    push.sender.AppendState(out);
    push.receiver.AppendState(out);
  }
  return out;
}

void InterleavingWorld::CheckEnd() {
  if (blocks_.prefill_owner >= 0 || blocks_.decode_owner >= 0) {
    blocks_.Violation("blocks never came back");
  }
  for (const auto& [sender, stream, receiver] : pushes_) {
    if (!receiver.started() || !sender.started()) {
      blocks_.Violation("a request could never start");
    }
    if (!sender.over() || !receiver.over()) blocks_.Violation("a machine is left");
    if (receiver.holds_messages()) blocks_.Violation("a message is held for ever");
    if (stream.live_slices() > 0) blocks_.Violation("slices are left");
  }
}

int InterleavingWorld::committed() const {
  return static_cast<int>(std::count_if(
      pushes_.begin(), pushes_.end(), [](const Push& push) { return push.receiver.committed(); }));
}

std::string InterleavingWorld::Name(const Choice& choice) {
  constexpr const char* kNames[] = {"start decode",
                                    "start prefill",
                                    "grant",
                                    "compute",
                                    "first token",
                                    "deliver",
                                    "answer",
                                    "release slices",
                                    "copy done",
                                    "notice at prefill",
                                    "notice at decode",
                                    "decode ends",
                                    "cancel at prefill",
                                    "cancel at decode",
                                    "cut",
                                    "kill prefill",
                                    "kill decode",
                                    "prefill timeout",
                                    "decode timeout"};
  return absl::StrCat(kNames[static_cast<size_t>(choice.kind)], " ", choice.request);
}

}  // namespace baton
