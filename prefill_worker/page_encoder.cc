#include "prefill_worker/page_encoder.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/kv_type_name.h"

namespace baton {
namespace {

std::string Where(int layer, int first_token, int end_token) {
  return absl::StrCat("KV of layer ", layer, ", tokens ", first_token, " to ", end_token - 1);
}

}  // namespace

absl::Status ChangedSinceComputed(int layer, int first_token, int end_token) {
  return absl::DataLossError(
      absl::StrCat(Where(layer, first_token, end_token),
                   ": the bytes in the cache are not those that were computed"));
}

bool EncodeTokens(const KvLayerRows& rows, const KvWireFormat& format, KvLayout::Part part,
                  int first_token, int end_token, uint8_t* to) {
  uint8_t* values = to;
  uint8_t* scales = to + static_cast<size_t>(end_token - first_token) * format.value_bytes();
  bool sayable = true;
  rows.ForEachBlock(part, first_token, end_token,
                    [&](const uint8_t* from, const uint8_t* from_scales, size_t count) {
                      sayable = format.Encode(from, from_scales, count, values, scales) && sayable;
                      values += count * format.value_bytes();
                      scales += count * format.scale_bytes();
                    });
  return sayable;
}

absl::StatusOr<std::vector<uint32_t>> WirePageCrcs(const KvLayerRows& rows,
                                                   const KvWireFormat& format, int first_token,
                                                   int end_token,
                                                   absl::Span<const uint32_t> cached_crcs) {
  BATON_CHECK(static_cast<int>(cached_crcs.size()) == KvPages(end_token - first_token),
              "one CRC for each page");
  std::vector<uint8_t> page(size_t{kKvPageTokens} * format.row_bytes());
  std::vector<uint32_t> crcs;
  for (int first = first_token; first < end_token; first += kKvPageTokens) {
    const int end = std::min(first + kKvPageTokens, end_token);
    if (rows.PageCrc(first, end) != cached_crcs[crcs.size()]) {
      return ChangedSinceComputed(rows.layer, first, end);
    }
    uint32_t crc = 0;
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      if (!EncodeTokens(rows, format, part, first, end, page.data())) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(rows.layer, first, end),
                         ": a value that is not finite, or too large, cannot be sent as ",
                         KvTypeName(format.type()), "; use --kv-wire-dtype=auto"));
      }
      crc = ExtendCrc32c(crc, page.data(), static_cast<size_t>(end - first) * format.row_bytes());
    }
    crcs.push_back(crc);
  }
  return crcs;
}

}  // namespace baton
