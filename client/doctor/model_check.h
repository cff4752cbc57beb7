// Whether a model can be served on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "client/doctor/finding.h"
#include "client/models/model_facts.h"

namespace baton {

struct ModelNeeds {
  ModelFacts model{};
  std::string device{};  // what would compute it, such as "cpu avx512, 2 threads"
  // That are to be started on this machine, each with a copy of its own; 0: all run already.
  int workers = 1;
  uint64_t free_bytes = 0;     // memory that these workers may still take; 0: unknown
  uint64_t address_space = 0;  // bytes of a process that RLIMIT_AS allows; 0: no limit
};

// Reads the model's metadata and what memory is free. Blocks for the time of that; opens no weights
// on a device.
ModelNeeds GatherModelNeeds(const std::string& path, int workers);

// model.served, model.memory, model.tokenizer and model.chat_template. Pure.
Findings ModelFindings(const ModelNeeds& needs);

}  // namespace baton
