// Text as zlib packs it: a compiled grammar is JSON with long lists of numbers, which becomes
// several times smaller. All functions are pure.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// What UnpackText reads: the size of `text` (4 bytes, little-endian) and what zlib made of it.
// Equal texts give equal bytes. REQUIRES: `text` is shorter than 1 GiB.
std::string PackText(absl::string_view text);

// DATA_LOSS if zlib finds that `packed` is not what PackText made; its check is weak, so who must
// know keeps a checksum. RESOURCE_EXHAUSTED, before anything is unpacked, if the text has more than
// `max_bytes`; it takes no more memory than the size in its head.
absl::StatusOr<std::string> UnpackText(absl::string_view packed, size_t max_bytes);

}  // namespace baton
