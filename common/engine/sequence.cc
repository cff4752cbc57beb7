#include "common/engine/sequence.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"

namespace baton {
namespace {

using State = Sequence::State;

SequenceRequest RequestOf(const SequenceRequest& request, int choice) {
  SequenceRequest own = request;
  own.choice = choice;
  own.choices = 1;
  return own;
}

std::optional<SequenceForm> FormOf(std::optional<GrammarState> grammar) {
  if (!grammar) return std::nullopt;
  return SequenceForm(*std::move(grammar));
}

bool MayFollow(State from, State to) {
  switch (to) {
    case State::kWaiting:
      return from == State::kRunning;
    case State::kReserved:
      return from == State::kWaiting;
    case State::kReceiving:
      return from == State::kReserved;
    case State::kRunning:
      return from == State::kWaiting || from == State::kReceiving;
    case State::kHeld:
      return from == State::kRunning;
    case State::kEnded:
      return from != State::kEnded;
  }
  return false;
}

}  // namespace

absl::Status SequenceTokens::AddOutput(int32_t id) {
  // tests/planted_bugs: grammar_not_moved_by_the_commit
  if (form) BATON_RETURN_IF_ERROR(form->Accept(id));
  ids.push_back(id);
  counts.AddOutput(id);
  pending_outputs = std::max(0, pending_outputs - 1);
  return absl::OkStatus();
}

void SequenceBlocks::Add(BlockPool::Block block) {
  table.push_back(kNoBlock);
  held.emplace_back();
  Put(held.size() - 1, std::move(block));
}

BlockPool::Block SequenceBlocks::Put(size_t entry, BlockPool::Block block) {
  table[entry] = block.empty() ? kNoBlock : block.id();
  return std::exchange(held[entry], std::move(block));
}

void SequenceBlocks::GiveBack() {
  while (!held.empty()) held.pop_back();
  table.clear();
  copied_from.clear();
  ahead = false;
  entered = 0;
  reservation = BlockPool::Reservation();
}

Sequence::Sequence(SequenceId sequence_id, uint64_t arrival_number,
                   SequenceRequest sequence_request, int max_model_len)
    : id(sequence_id),
      arrival(arrival_number),
      request(std::move(sequence_request)),
      tokens{.ids = {},
             .counts = TokenCounts(request.sampling, request.token_ids, request.prompt_length),
             .form = FormOf(std::exchange(request.grammar, std::nullopt)),
             .most = static_cast<int>(
                 std::min(int64_t{request.prompt_length} + request.sampling.max_tokens,
                          int64_t{max_model_len}))} {
  tokens.ids = std::move(request.token_ids);
  const bool scored =
      request.sampling.prompt_logprobs && request.mode != SequenceRequest::Mode::kReceive;
  tokens.scored = scored ? 1 : request.prompt_length;  // the first token has nothing before it
  for (int i = 0; i < request.choices; ++i) choices.push_back(request.choice + i);
}

Sequence::Sequence(const Sequence& first, int choice)
    : id(first.id),
      arrival(first.arrival + static_cast<uint64_t>(choice - first.request.choice)),
      request(RequestOf(first.request, choice)),
      choices{choice},
      tokens(first.tokens),
      kv(first.kv),
      times(first.times),
      paused(first.paused),
      admitted(first.admitted),
      preemptions(first.preemptions),
      last_step(first.last_step),
      state_(first.state_) {
  tokens.scored = request.prompt_length;  // all choices report the prompt once
}

std::unique_ptr<Sequence> Sequence::Fork(int choice) const {
  return std::unique_ptr<Sequence>(new Sequence(*this, choice));
}

void Sequence::Enter(State next) {
  BATON_CHECK(MayFollow(state_, next), "a step of a sequence's life");
  state_ = next;
}

}  // namespace baton
