// The tokens of the simulated model, and the grammars that say which of them may come next.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/sim_random.h"

namespace baton {

inline constexpr int kSimVocab = 1000;
inline constexpr int32_t kSimEndTokens = 10;  // ids below end a sequence

// A model that reads wrong KV gives a wrong token, which tells what it should have been. What is
// computed from it is the same as from the right one.
inline constexpr int32_t kSimWrong = kSimVocab;  // added to the right token's id
inline constexpr int kSimIds = 2 * kSimVocab;    // ids of right and wrong tokens
inline bool IsWrong(int32_t id) { return id >= kSimVocab; }

// Stands for a GrammarState: a small automaton, each state of which allows a third of the tokens.
// Where it stands is a function of the grammar's bytes and of the outputs so far, so that whoever
// has another grammar, or has not seen all outputs, gives other tokens.
class SimGrammar {
 public:
  // The state before the first output. `bytes` as in SequenceSpec.grammar; empty: any text.
  explicit SimGrammar(const std::string& bytes) {
    for (const char byte : bytes) key_ = Mix64(key_ ^ static_cast<uint64_t>(byte));
  }
  // Any text.
  SimGrammar() = default;

  // Whether the right token `id` may come next.
  bool Allows(int32_t id) const { return key_ == 0 || Draw(id) % 3 == 0; }
  void Accept(int32_t id) { state_ = Draw(id % kSimVocab) / 3 % kStates; }

 private:
  static constexpr uint64_t kStates = 16;

  uint64_t Draw(int32_t id) const {
    return Mix64(key_ ^ (state_ * kSimVocab + static_cast<uint64_t>(id)));
  }

  uint64_t key_ = 0;  // tells grammars apart; 0: any text
  uint64_t state_ = 0;
};

}  // namespace baton
