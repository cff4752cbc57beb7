// SmolLM2 in another weight type, made from the file that the tests have.
#pragma once

#include "common/gguf/gguf_file.h"

namespace baton {

// The "llama" model of `file` with every matrix as Q8_0: scale = the largest magnitude of a block
// of 32 / 127, codes rounded to nearest. Without tokenizer and what else no forward pass needs.
// REQUIRES: widths that are multiples of 32.
GgufFile RequantiseToQ8(const GgufFile& file);

}  // namespace baton
