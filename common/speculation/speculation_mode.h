// Whether the next tokens of a sequence are guessed.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace baton {

// A guess changes when tokens come, never which.
enum class SpeculationMode {
  kAuto,   // as many as pay, by what was accepted so far and by what rows cost
  kNgram,  // as many as an n-gram proposes, whatever they cost
  kNone,
};

// Every mode with its name, as flags spell it.
const std::vector<std::pair<std::string, SpeculationMode>>& SpeculationModes();

}  // namespace baton
