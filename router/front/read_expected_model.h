// Reads from a model file what workers' models are compared with.
#pragma once

#include <string>

#include "common/gguf/gguf_file.h"
#include "router/fleet/expected_model.h"

namespace baton {

// Reads the facts of `file`, whose model clients know as `name`. The weights are compared only if
// the file was opened with its tensors. Reads up to 32 MiB of it, and 64 KiB of each further file.
ExpectedModel ReadExpectedModel(const GgufFile& file, const std::string& tokenizer_digest,
                                const std::string& name);

}  // namespace baton
