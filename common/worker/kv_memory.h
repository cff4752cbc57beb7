// The memory of a KV cache, in its type and in other types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/gguf/gguf_file.h"
#include "common/kv/layout.h"

namespace baton {

// The layout of the KV cache of a worker that serves the file and is given no block size.
// `dtype` is a value of --kv-cache-dtype. INVALID_ARGUMENT or UNIMPLEMENTED if no worker could
// serve the file, or there is no such type.
absl::StatusOr<KvLayout> KvLayoutOf(const GgufFile& file, absl::string_view dtype);

struct KvMemory {
  KvType type;
  uint64_t bytes;
};

// The bytes of so many blocks in the layout's own type, then in the other types that take its
// heads, the largest first.
std::vector<KvMemory> KvMemoryByType(const KvLayout& layout, int blocks);

// Such as "94.4 MB; int8 50.1 MB, int4 26.5 MB": the cache, and the types that take less.
std::string KvMemoryText(const KvLayout& layout, int blocks);

}  // namespace baton
