// What the sequences of a simulated decode worker hold, and how the choices of one call part: they
// share every full block, of a last one that is not full each has a copy.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/decode_sim.h"
#include "tests/simulation/sim_open.h"

namespace baton {

void DecodeSim::TakeOwn(Holding& held, BlockPool::Block block) {
  const Holding*& owner = owners_[static_cast<size_t>(block.id())];
  if (owner != nullptr) sim_.Violation("a block has two owners");
  owner = &held;
  held.memory.block_table.push_back(block.id());
  held.generations.push_back(pool_->generation(block.id()));
  held.blocks.push_back(std::move(block));
}

// With nothing before them. Returns how many of them somebody uses: those need no reservation.
int DecodeSim::TakeCached(Holding& held, const std::vector<int32_t>& blocks) {
  held.memory = {memory_.data(), layout_, {}};
  held.generations.clear();
  int used = 0;
  for (const int32_t id : blocks) {
    const bool is_used = pool_->reference_count(id) > 0;
    held.blocks.push_back(is_used ? pool_->Share(id) : held.reservation.TakeKept(id));
    used += is_used ? 1 : 0;
    held.memory.block_table.push_back(id);
    held.generations.push_back(pool_->generation(id));
  }
  held.shared_blocks = blocks.size();
  return used;
}

void DecodeSim::GiveBack(Holding& held) {
  std::replace(owners_.begin(), owners_.end(), static_cast<const Holding*>(&held),
               static_cast<const Holding*>(nullptr));
  while (!held.blocks.empty()) held.blocks.pop_back();  // the last block first
  held.reservation = BlockPool::Reservation();
}

// Whole blocks of the sequence that are all there.
void DecodeSim::EnterBlocks(Call& call) {
  Holding& held = call.held;
  const size_t whole = call.attempt.token_ids.size() / static_cast<size_t>(layout_.block_size);
  for (size_t i = held.shared_blocks; i < whole; ++i) {
    auto block = prefix_cache_->Insert(call.attempt.token_ids, "", held.blocks, i);
    const Holding*& owner = owners_[static_cast<size_t>(held.blocks[i].id())];
    if (block.id() != held.blocks[i].id() && owner == &held) owner = nullptr;
    held.blocks[i] = std::move(block);
    held.memory.block_table[i] = held.blocks[i].id();
    held.generations[i] = pool_->generation(held.blocks[i].id());
  }
}

// For its tokens, head-room for each choice, and each other one's copy of a last block that is not
// full.
int DecodeSim::BlocksToStart(const Call& call) const {
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  const auto choices = static_cast<int>(call.going.size());
  const int copies = tokens % layout_.block_size != 0 ? choices - 1 : 0;
  return std::min(layout_.BlocksFor(tokens) + copies + choices, pool_->total_blocks());
}

// One that has ended while others go on.
void DecodeSim::DropChoice(Call& call, uint32_t number) {
  const auto parted = call.parted.find(number);
  if (parted != call.parted.end()) {
    GiveBack(parted->second.held);
    call.parted.erase(parted);
  } else {
    const int without = BlocksToStart(call);
    call.going.insert(number);
    const int with = BlocksToStart(call);
    call.going.erase(number);
    call.held.reservation.GiveUp(std::min(call.held.reservation.count(), with - without));
  }
  WakeWaiting();
}

// The prompt is there: each choice goes on with its own first token.
void DecodeSim::BeginDecoding(Key key) {
  Call& call = *Find(key);
  Part(call);
  const auto tokens = static_cast<int>(call.attempt.token_ids.size());
  internal::v1::DecodeResponse response;
  const bool joined = sim_.random.Chance(500);
  for (const auto& [number, choice] : call.parted) {
    if (!joined) response.Clear();
    *response.mutable_tokens()->add_tokens() = TokenAfter(call.attempt, number, tokens);
    if (!joined) Tell(call, response);
  }
  if (joined) Tell(call, response);
  for (const auto& [number, choice] : call.parted) Schedule(key, number);
}

void DecodeSim::Part(Call& call) {
  if (call.going.size() > 1) ++sim_.coverage.forks;
  Holding& from = call.held;
  const bool copies = call.attempt.token_ids.size() % static_cast<size_t>(layout_.block_size) != 0;
  const uint32_t first = *call.going.begin();
  for (const uint32_t number : call.going) {
    Choice& choice = call.parted[number];
    choice.order = call.order + number - call.attempt.key.choice();
    if (number == first) continue;
    Holding& held = choice.held;
    held.memory = {memory_.data(), layout_, {}};
    for (size_t i = 0; i < from.blocks.size(); ++i) {
      if (copies && i + 1 == from.blocks.size()) {
        TakeOwn(held, from.reservation.Take());
        const auto bytes = [&](const Holding& of) {
          return memory_.data() + static_cast<size_t>(of.blocks[i].id()) *
                                      static_cast<size_t>(layout_.block_bytes());
        };
        std::memcpy(bytes(held), bytes(from), layout_.block_bytes());
        continue;
      }
      held.blocks.push_back(from.blocks[i].Share());
      held.memory.block_table.push_back(from.memory.block_table[i]);
      held.generations.push_back(from.generations[i]);
    }
    if (from.reservation.count() > 1) held.reservation = from.reservation.Split(1);
  }
  Holding& to = call.parted.at(first).held;
  std::replace(owners_.begin(), owners_.end(), static_cast<const Holding*>(&from),
               static_cast<const Holding*>(&to));
  to = std::exchange(from, {});
}

}  // namespace baton
