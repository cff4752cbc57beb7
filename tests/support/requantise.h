// SmolLM2 in another weight type, made from the file that the tests have.
#pragma once

#include "common/gguf/gguf_file.h"

namespace baton {

// The "llama" model of `file` with every matrix as BF16, rounded to nearest, or as Q8_0: scale = the
// largest magnitude of a block of 32 / 127, codes rounded to nearest. Without tokenizer and what
// else no forward pass needs. REQUIRES: one of the two; widths that are multiples of 32.
GgufFile Requantise(const GgufFile& file, GgmlType type);

}  // namespace baton
