#include "common/speculation/speculation_mode.h"

namespace baton {

const std::vector<std::pair<std::string, SpeculationMode>>& SpeculationModes() {
  static const auto* const modes =
      new std::vector<std::pair<std::string, SpeculationMode>>{{"auto", SpeculationMode::kAuto},
                                                               {"ngram", SpeculationMode::kNgram},
                                                               {"draft", SpeculationMode::kDraft},
                                                               {"none", SpeculationMode::kNone}};
  return *modes;
}

}  // namespace baton
