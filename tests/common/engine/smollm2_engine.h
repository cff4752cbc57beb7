// An engine on SmolLM2, whose file BATON_TEST_MODEL names.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/common/engine/engine_harness.h"

namespace baton {

// Its GGUF file; "" if none is named.
inline std::string SmolLm2Path() {
  const char* path = std::getenv("BATON_TEST_MODEL");
  return path == nullptr ? "" : path;
}

inline EngineHarness::Options SmolLm2(SpeculationMode speculation, int blocks = 256) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.model = SmolLm2Path();
  options.threads = 2;
  options.engine.max_num_seqs = 64;
  options.engine.kv_dtype = KvType::kF16;
  options.engine.num_kv_blocks = blocks;
  options.engine.speculation = speculation;
  return options;
}

}  // namespace baton
