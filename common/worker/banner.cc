#include "common/worker/banner.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

#include "common/base/terminal_text.h"

namespace baton {

std::string Banner(const BannerInfo& info) {
  const int64_t kv_tokens = int64_t{info.kv_blocks} * info.block_size;
  const int64_t sequences = info.max_model_len > 0 ? kv_tokens / info.max_model_len : 0;
  return absl::StrCat("Baton ", info.version, " ", info.role, " worker on ", info.address,
                      "\n  model    ", ShownLine(info.model), " (", info.weights, "), context ",
                      info.max_model_len, " tokens", info.draft.empty() ? "" : "\n  draft    ",
                      info.draft, "\n  device   ", info.device, "\n  KV cache ", info.kv_blocks,
                      " blocks = ", kv_tokens, " tokens (", info.kv_dtype, "), ", sequences,
                      sequences == 1 ? " sequence" : " sequences", " of full length\n           ",
                      info.kv_memory);
}

}  // namespace baton
