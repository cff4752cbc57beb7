// What must hold of a decode worker at every copy, acknowledgement and release.
#include <algorithm>
#include <utility>

#include "tests/simulation/decode_sim.h"

namespace baton {

using internal::v1::KvDataHeader;

namespace {

template <typename Visit>
void ForEachPage(const LayerTokens& range, const Visit& visit) {
  const int end = range.tokens.end;
  for (int token = range.tokens.begin; token < end; token += kKvPageTokens) {
    visit(std::pair<int, int>(range.layer, token / kKvPageTokens), token,
          std::min(token + kKvPageTokens, end));
  }
}

}  // namespace

void DecodeSim::OnSend(Call& call, const ReceiveAction::Send& send) {
  if (send.message.has_refused()) {
    ++sim_.coverage.refusals[static_cast<size_t>(send.message.refused().reason())];
  }
  if (send.message.has_ack()) {
    const auto found = call.headers.find(send.message.ack().sequence_number());
    if (found == call.headers.end()) return sim_.Violation("an ack for nothing");
    const KvDataHeader& header = found->second;
    const int first = static_cast<int>(header.first_token());
    const int last = first + static_cast<int>(header.token_count()) - 1;
    for (uint32_t i = 0; i < header.layer_count(); ++i) {
      for (int page = first / kKvPageTokens; page <= last / kKvPageTokens; ++page) {
        if (call.right.count({static_cast<int>(header.first_layer() + i), page}) == 0) {
          sim_.Violation("an ack for a page that is not there");
        }
      }
    }
  }
  network_.Answer(send.stream, send.message.SerializeAsString());
}

// I3: only into blocks of this attempt, in the life in which it took them.
bool DecodeSim::MayWrite(const Call& call, const LayerTokens& range) {
  if (!call.granted || call.released || call.committed) return false;
  const int tokens = static_cast<int>(call.attempt.token_ids.size());
  const int end = range.tokens.end;
  if (range.layer < 0 || range.layer >= layout_.layers || range.tokens.begin < call.start_token ||
      end > tokens) {
    return false;
  }
  for (int token = range.tokens.begin; token < end; token += kKvPageTokens) {
    const auto index = static_cast<size_t>(token / layout_.block_size);
    const int32_t block = call.held.memory.block_table[index];
    if (owners_[static_cast<size_t>(block)] != &call.held) return false;
    if (pool_->generation(block) != call.held.generations[index]) return false;
  }
  return true;
}

void DecodeSim::BeginCopy(Key key, Call& call, const ReceiveAction::Copy& copy) {
  ++sim_.coverage.copies;
  if (call.messages.count(copy.message_id) == 0) sim_.Violation("a copy without its message");
  if (copy.ranges.empty()) sim_.Violation("a copy of nothing");
  for (const LayerTokens& range : copy.ranges) {
    if (!MayWrite(call, range)) return sim_.Violation("a copy into somebody else's block");
    ForEachPage(range, [&](const Page& page, int, int) {
      if (!call.in_copy.insert(page).second) sim_.Violation("two copies into one page");
      if (call.right.count(page) > 0) sim_.Violation("a copy into a covered page");
    });
  }
  call.copies[copy.copy_id] = copy;
  const Micros delay = sim_.Strikes(Fault::kSlowCopy) ? sim_.random.Between(1'000, 5'000'000)
                                                      : sim_.random.Between(5, 300);
  core_.process().After(delay, [this, key, id = copy.copy_id] { FinishCopy(key, id); });
}

void DecodeSim::FinishCopy(Key key, uint64_t copy_id) {
  Call* call = Find(key);
  if (call == nullptr || call->copies.count(copy_id) == 0) {
    return sim_.Violation("a copy outlives its attempt");
  }
  const ReceiveAction::Copy copy = call->copies.at(copy_id);
  call->copies.erase(copy_id);
  for (const LayerTokens& range : copy.ranges) {
    if (!MayWrite(*call, range)) return sim_.Violation("a late write into somebody else's block");
  }
  ReceiveEvent::CopyDone done =
      CopyPayload(copy, call->messages.at(copy.message_id), call->held.memory);
  if (sim_.Strikes(Fault::kFailedCopy)) done = {copy_id, false, {}, {}};
  for (const LayerTokens& range : copy.ranges) {
    ForEachPage(range, [&](const Page& page, int first, int end) {
      call->in_copy.erase(page);
      const bool right = call->attempt.content->Holds(call->held.memory, range.layer, first, end);
      if (done.ok && right) call->right.insert(page);
    });
  }
  Deliver(key, done);
}

void DecodeSim::CheckContent(const SimAttempt& attempt, uint32_t choice, const KvBlocks& memory,
                             int tokens, const char* when) {
  for (int layer = 0; layer < layout_.layers; ++layer) {
    if (!attempt.right->choices[choice].content->Holds(memory, layer, 0, tokens)) {
      sim_.Violation("wrong KV in layer ", layer, " of request ", attempt.request, " ", when);
    }
  }
}

// I3: what a choice decodes goes into a block that no other sequence has.
void DecodeSim::CheckMayDecode(const Choice& choice, int token) {
  const int32_t block =
      choice.held.memory.block_table[static_cast<size_t>(token / layout_.block_size)];
  if (owners_[static_cast<size_t>(block)] != &choice.held || pool_->reference_count(block) != 1) {
    sim_.Violation("a step writes into a block that is another's too");
  }
}

void DecodeSim::CheckAtRest() {
  if (!calls_.empty() || !streams_.empty()) {
    sim_.Violation("decode worker ", index_, " still has ", calls_.size(), " attempts and ",
                   streams_.size(), " streams");
  }
  if (pool_->used_blocks() != 0 || pool_->reserved_blocks() != 0) {
    sim_.Violation("decode worker ", index_, " has ", pool_->used_blocks(), " blocks in use, ",
                   pool_->reserved_blocks(), " reserved");
  }
  if (retained_->size() != 0) sim_.Violation("what was retained has not expired");
  pool_->CheckInvariants();
}

}  // namespace baton
