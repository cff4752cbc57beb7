#include "common/worker/kv_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/engine/engine_options.h"
#include "common/model/config.h"

namespace baton {

absl::StatusOr<KvLayout> KvLayoutOf(const GgufFile& file, absl::string_view dtype) {
  const EngineOptions defaults;
  KvType type = defaults.kv_dtype;
  if (dtype != "auto") {
    BATON_ASSIGN_OR_RETURN(type, KvTypeFromName(dtype));
  }
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::FromGguf(file));
  return config.MakeKvLayout(defaults.block_size, type);
}

std::vector<KvMemory> KvMemoryByType(const KvLayout& layout, int blocks) {
  const auto bytes_in = [&](KvType type) {
    KvLayout other = layout;
    other.dtype = type;
    return KvMemory{type, uint64_t{other.block_bytes()} * static_cast<uint64_t>(blocks)};
  };
  std::vector<KvMemory> memory = {bytes_in(layout.dtype)};
  for (const KvType type : kAllKvTypes) {
    if (type == layout.dtype || !TakesHeadDim(type, static_cast<size_t>(layout.head_dim))) continue;
    memory.push_back(bytes_in(type));
  }
  std::stable_sort(memory.begin() + 1, memory.end(),
                   [](const KvMemory& a, const KvMemory& b) { return a.bytes > b.bytes; });
  return memory;
}

std::string KvMemoryText(const KvLayout& layout, int blocks) {
  const std::vector<KvMemory> memory = KvMemoryByType(layout, blocks);
  const auto megabytes = [](const KvMemory& in_type) {
    return absl::StrFormat("%.1f MB", static_cast<double>(in_type.bytes) * 1e-6);
  };
  std::string text = megabytes(memory.front());
  const char* separator = "; ";
  for (const KvMemory& other : memory) {
    // fp8 takes what int8 takes.
    if (other.bytes >= memory.front().bytes || other.type == KvType::kFp8) continue;
    absl::StrAppend(&text, separator, KvTypeName(other.type), " ", megabytes(other));
    separator = ", ";
  }
  return text;
}

}  // namespace baton
