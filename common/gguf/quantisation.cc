#include "common/gguf/quantisation.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/float_types.h"
#include "common/base/hash.h"
#include "common/gguf/gguf_rep.h"
#include "common/gguf/quantise.h"

namespace baton {
namespace {

bool IsFloatType(GgmlType type) {
  return type == GgmlType::kF32 || type == GgmlType::kF16 || type == GgmlType::kBf16;
}

float WeightAt(const uint8_t* bytes, GgmlType type, uint64_t index) {
  if (type == GgmlType::kF32) {
    float value;
    std::memcpy(&value, bytes + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes + index * sizeof(half), sizeof(half));
  return type == GgmlType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
}

// Quantises all of a tensor's weights. Blocks do not reach from one row into the next.
void QuantiseAll(absl::Span<const uint8_t> from, GgmlType from_type, GgmlType to_type,
                 absl::Span<uint8_t> out) {
  const uint64_t block_bytes = GgmlBlockOf(to_type)->bytes;
  float weights[kQuantisedBlock];
  for (uint64_t block = 0; block < out.size() / block_bytes; ++block) {
    for (uint64_t i = 0; i < kQuantisedBlock; ++i) {
      weights[i] = WeightAt(from.data(), from_type, block * kQuantisedBlock + i);
    }
    uint8_t* to = out.data() + block * block_bytes;
    to_type == GgmlType::kQ8_0 ? QuantiseQ8_0(weights, to) : QuantiseQ4_0(weights, to);
  }
}

}  // namespace

std::vector<std::pair<std::string, Quantisation>> Quantisations() {
  return {
      {"none", Quantisation::kNone}, {"q8_0", Quantisation::kQ8_0}, {"q4_0", Quantisation::kQ4_0}};
}

GgmlType QuantisedType(const GgufFile& file, const GgufTensor& tensor, Quantisation quantisation) {
  if (quantisation == Quantisation::kNone || !IsFloatType(tensor.type) || tensor.dims.size() < 2 ||
      tensor.dims[0] % kQuantisedBlock != 0 || !absl::EndsWith(tensor.name, ".weight") ||
      absl::EndsWith(tensor.name, "ffn_gate_inp.weight")) {
    return tensor.type;
  }
  const bool tied = file.FindTensor("output.weight") == nullptr;
  const bool head = tensor.name == (tied ? "token_embd.weight" : "output.weight");
  return head || quantisation == Quantisation::kQ8_0 ? GgmlType::kQ8_0 : GgmlType::kQ4_0;
}

std::string QuantisedDigest(const std::string& digest, Quantisation quantisation) {
  if (quantisation == Quantisation::kNone) return digest;
  Sha256 hash;
  hash.Update("baton quantised weights 1\n");
  hash.Update(quantisation == Quantisation::kQ8_0 ? "q8_0\n" : "q4_0\n");
  hash.Update(digest);
  return hash.Finish();
}

GgufFile GgufFile::Quantised(GgufFile file, Quantisation quantisation) {
  Rep& rep = *file.rep_;
  for (size_t i = 0; i < rep.contents.tensors.size(); ++i) {
    GgufTensor& tensor = rep.contents.tensors[i];
    const GgmlType to = QuantisedType(file, tensor, quantisation);
    if (to == tensor.type) continue;
    const GgufTensor from = tensor;
    TensorMaker maker = std::move(rep.makers[i]);
    std::vector<absl::Span<const uint8_t>> sources = maker.sources;
    if (maker.make == nullptr) sources = {from.data};
    rep.makers[i] = {.make =
                         [from, to, maker = std::move(maker)](absl::Span<uint8_t> out) {
                           if (maker.make == nullptr) {
                             return QuantiseAll(from.data, from.type, to, out);
                           }
                           const uint64_t bytes = from.size_bytes();
                           const auto made = std::make_unique_for_overwrite<uint8_t[]>(bytes);
                           const absl::Span<uint8_t> floats(made.get(), bytes);
                           maker.make(floats);
                           QuantiseAll(floats, from.type, to, out);
                         },
                     .sources = std::move(sources)};
    tensor.type = to;
    tensor.data = {};
  }
  return file;
}

}  // namespace baton
