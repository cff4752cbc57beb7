// Whether the next tokens of a sequence are guessed.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace baton {

// A guess changes when tokens come, never which.
enum class SpeculationMode {
  // As many as pay, by what was accepted so far and by what rows cost: those of an n-gram, and
  // where there is none those of the draft model, if there is one.
  kAuto,
  kNgram,  // as many as an n-gram proposes, whatever they cost
  kDraft,  // as many as there may be, by the draft model, whatever they cost
  kNone,
};

// Every mode with its name, as flags spell it.
const std::vector<std::pair<std::string, SpeculationMode>>& SpeculationModes();

}  // namespace baton
