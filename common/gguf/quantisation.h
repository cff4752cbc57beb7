// The flag --quantize: weights that are quantised while they are loaded.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/gguf/ggml_type.h"
#include "common/gguf/gguf_file.h"

namespace baton {

enum class Quantisation { kNone, kQ8_0, kQ4_0 };

// The values of the flag.
std::vector<std::pair<std::string, Quantisation>> Quantisations();

// The type that `tensor` of `file` is loaded as. Matrices of floats are quantised, one by one or
// stacked, the embedding among them. These stay as they are: what is quantised already, vectors and
// biases, the weights of experts' routers (ffn_gate_inp), and matrices whose rows are no whole
// blocks of 32. If the others are Q4_0, the output head is Q8_0.
GgmlType QuantisedType(const GgufFile& file, const GgufTensor& tensor, Quantisation quantisation);

// What two workers with the same weights have alike: `digest`, the file's, if nothing is quantised,
// else another one of 32 bytes.
std::string QuantisedDigest(const std::string& digest, Quantisation quantisation);

}  // namespace baton
