// Which events are possible in a state, and the search over all of them.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "tests/simulation/interleavings.h"
#include "tests/simulation/machine_state.h"

namespace baton {

void InterleavingWorld::ChoicesOf(int request, std::vector<Choice>& choices) const {
  const Side& side = At(request);
  const auto add = [&](bool possible, Kind kind, uint64_t copy_id = 0) {
    if (possible) choices.push_back({kind, request, copy_id});
  };
  add(!side.decode_started && decode_owner_ < 0, Kind::kStartDecode);
  add(side.decode_started && !side.prefill_started && prefill_owner_ < 0, Kind::kStartPrefill);
  const bool receiving = side.receiver != nullptr && !side.receiver_over;
  const bool sending = side.sender != nullptr && !side.sender_over;
  add(receiving && side.asked_for_blocks && !side.granted &&
          side.receiver->state() == ReceiveMachine::State::kOpen,
      Kind::kGrant);
  add(sending && !side.computed, Kind::kCompute);
  add(sending && side.computed && !side.first_token_made, Kind::kFirstToken);
  add(!side.to_decode.empty(), Kind::kDeliver);
  add(sending && side.prefill_open && !side.to_prefill.empty(), Kind::kAnswer);
  add(sending && side.released_slices > 0, Kind::kReleaseSlices);
  for (const auto& [id, copy] : side.copies) add(true, Kind::kCopyDone, id);
  add(sending && side.prefill_notice && side.to_prefill.empty(), Kind::kNoticeAtPrefill);
  add(side.decode_notice, Kind::kNoticeAtDecode);
  add(receiving && side.committed, Kind::kDecodeEnds);
}

void InterleavingWorld::DisturbancesOf(int request, std::vector<Choice>& choices) const {
  const Side& side = At(request);
  const auto add = [&](bool possible, Kind kind) {
    if (possible) choices.push_back({kind, request, 0});
  };
  const bool receiving = side.receiver != nullptr && !side.receiver_over;
  const bool sending = side.sender != nullptr && !side.sender_over;
  add(sending, Kind::kCancelAtPrefill);
  add(receiving && !side.committed, Kind::kCancelAtDecode);
  add(side.prefill_open && side.decode_open, Kind::kCut);
  add(sending, Kind::kKillPrefill);
  add(receiving, Kind::kKillDecode);
  add(sending && side.sender->NextDeadline() < absl::InfiniteFuture(), Kind::kPrefillTimeout);
  add(receiving && side.receiver->NextDeadline() < absl::InfiniteFuture(), Kind::kDecodeTimeout);
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
  add(disturbances_left_, prefill_owner_, prefill_content_, decode_owner_);
  for (const int content : decode_content_) add(content);
  for (const Side& side : sides_) {
    add(side.decode_started, side.prefill_started, side.computed, side.first_token_made,
        side.asked_for_blocks, side.granted, side.sender_over, side.receiver_over);
    add(side.committed, side.failed, side.prefill_open, side.decode_open, side.prefill_notice,
        side.decode_notice, side.half_closed);
    for (const Message& message : side.to_decode) {
      add(message.is_data, message.half_close);
      out += message.control.SerializeAsString();
      out += message.header.SerializeAsString();
    }
    for (const auto& answer : side.to_prefill) out += answer.SerializeAsString();
    add(side.live_slices, side.released_slices, side.next_message_id);
    for (const auto& [id, held] : side.held) add(id, held.content);
    for (const auto& [id, copy] : side.copies) add(id, copy.message_id);
    for (const int page : side.in_copy) add("in copy ", page);
    for (const int page : side.right) add("right ", page);
    if (side.sender != nullptr && !side.sender_over) MachineState::Append(*side.sender, out);
    if (side.receiver != nullptr && !side.receiver_over) MachineState::Append(*side.receiver, out);
  }
  return out;
}

void InterleavingWorld::CheckEnd() {
  if (prefill_owner_ >= 0 || decode_owner_ >= 0) Violation("blocks never came back");
  for (const Side& side : sides_) {
    if (!side.decode_started || !side.prefill_started) Violation("a request could never start");
    if (!side.sender_over || !side.receiver_over) Violation("a machine is left");
    if (!side.held.empty()) Violation("a message is held for ever");
    if (side.live_slices > 0) Violation("slices are left");
  }
}

int InterleavingWorld::committed() const {
  return static_cast<int>(
      std::count_if(sides_.begin(), sides_.end(), [](const Side& side) { return side.committed; }));
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

namespace {

struct Search {
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.low); }
  };
  InterleavingResult result;
  std::unordered_set<Hash128, HashOf> seen;  // asked for membership only
  std::vector<std::string> path;

  bool IsNew(const InterleavingWorld& world) {
    return seen.insert(ChainHash(Hash128{}, world.State())).second;
  }
  void Fail(const InterleavingWorld& world) {
    result.violation = world.violation();
    for (const std::string& step : path) absl::StrAppend(&result.violation, "\n  ", step);
  }
  // Depth first: a path has some sixty events at most.
  void Explore(const InterleavingWorld& world) {
    ++result.states;
    const std::vector<InterleavingWorld::Choice> choices = world.Choices();
    if (choices.empty()) {
      InterleavingWorld end = world;
      end.CheckEnd();
      ++result.ends;
      result.committed += static_cast<uint64_t>(end.committed());
      if (!end.violation().empty()) Fail(end);
    }
    for (const InterleavingWorld::Choice& choice : choices) {
      if (!result.violation.empty()) return;
      ++result.transitions;
      InterleavingWorld next = world;
      next.Take(choice);
      path.push_back(InterleavingWorld::Name(choice));
      if (!next.violation().empty()) {
        Fail(next);
      } else if (IsNew(next)) {
        Explore(next);
      }
      path.pop_back();
    }
  }
};

}  // namespace

InterleavingResult EnumerateInterleavings(const InterleavingOptions& options) {
  Search search;
  const InterleavingWorld start(options);
  search.IsNew(start);
  search.Explore(start);
  return search.result;
}

}  // namespace baton
