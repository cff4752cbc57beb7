// SmolLM2 in another weight type, made of the file that the tests have.
#pragma once

#include "common/gguf/gguf_file.h"

namespace baton {

// Returns the "llama" model of `file` with every matrix as BF16, rounded to nearest, or as Q8_0:
// the scale of a block of 32 is its largest magnitude / 127, and codes are rounded to nearest. It
// has only what a forward pass needs, and no tokenizer. REQUIRES: `type` is BF16 or Q8_0; all
// widths are multiples of 32.
GgufFile Requantise(const GgufFile& file, GgmlType type);

}  // namespace baton
