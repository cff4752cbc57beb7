#include "prefill_worker/page_encoder.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

std::string Where(const LayerTokens& kv) {
  return absl::StrCat("KV of layer ", kv.layer, ", tokens ", kv.tokens.begin, " to ",
                      kv.tokens.end - 1);
}

}  // namespace

absl::Status ChangedSinceComputed(const LayerTokens& page) {
  return absl::DataLossError(
      absl::StrCat(Where(page), ": the bytes in the cache are not those that were computed"));
}

bool EncodeTokens(const KvLayerRows& rows, const KvWireFormat& format, KvLayout::Part part,
                  TokenRange tokens, uint8_t* to) {
  uint8_t* values = to;
  uint8_t* scales = to + static_cast<size_t>(tokens.size()) * format.value_bytes();
  bool sayable = true;
  rows.ForEachBlock(part, tokens,
                    [&](const uint8_t* from, const uint8_t* from_scales, size_t count) {
                      sayable = format.Encode(from, from_scales, count, values, scales) && sayable;
                      values += count * format.value_bytes();
                      scales += count * format.scale_bytes();
                    });
  return sayable;
}

absl::StatusOr<uint32_t> EncodePage(const KvLayerRows& rows, const KvWireFormat& format,
                                    TokenRange page, const KvLayerRows& to) {
  bool sayable = true;
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    // Both sides have a page in one block, so each lambda is called once.
    rows.ForEachBlock(part, page, [&](const uint8_t* from, const uint8_t* scales, size_t count) {
      to.ForEachBlock(part, page, [&](uint8_t* values_there, uint8_t* scales_there, size_t) {
        sayable = format.Encode(from, scales, count, values_there, scales_there) && sayable;
      });
    });
  }
  if (sayable) return to.PageCrc(page);
  return absl::InvalidArgumentError(absl::StrCat(
      Where({rows.layer, page}), ": a value that is not finite, or too large, cannot be sent as ",
      KvTypeName(format.type()), "; use --kv-wire-dtype=auto"));
}

absl::StatusOr<std::vector<uint32_t>> WirePageCrcs(const KvLayerRows& rows,
                                                   const KvWireFormat& format, TokenRange tokens,
                                                   absl::Span<const uint32_t> cached_crcs) {
  BATON_CHECK(static_cast<int>(cached_crcs.size()) == KvPages(tokens.size()),
              "one CRC for each page");
  const KvLayout layout = format.BlockOf(kKvPageTokens);
  const auto bytes = std::make_unique_for_overwrite<uint8_t[]>(layout.block_bytes());
  const KvBlocks encoded = {bytes.get(), layout, {0}};
  std::vector<uint32_t> crcs;
  for (const TokenRange page : PagesOf(tokens)) {
    if (rows.PageCrc(page) != cached_crcs[crcs.size()]) {
      return ChangedSinceComputed({rows.layer, page});
    }
    BATON_ASSIGN_OR_RETURN(const uint32_t crc,
                           EncodePage(rows, format, page, {&encoded, rows.layer, 0, page.begin}));
    crcs.push_back(crc);
  }
  return crcs;
}

}  // namespace baton
