#include "decode_worker/payload_copier.h"

#include <algorithm>
#include <vector>

#include "common/base/failpoint.h"

namespace baton {
namespace {

// Finds the K or V of a range in the payload.
class RangePayload {
 public:
  RangePayload(const ReceiveAction::Copy& copy, const KvDataMessage& message,
               const KvWireFormat& format, const LayerTokens& range, KvLayout::Part part)
      : message_(message),
        format_(format),
        tokens_(copy.header.token_count()),
        before_(static_cast<size_t>(range.tokens.begin) - copy.header.first_token()),
        begin_((2 * (static_cast<size_t>(range.layer) - copy.header.first_layer()) + part) *
               tokens_ * format.row_bytes()) {}

  // Moves `reader` to the first value, or scale, of the range; false where the payload is too
  // short.
  bool Find(SliceReader& reader, bool scales) const {
    const size_t offset = scales ? tokens_ * format_.value_bytes() + before_ * format_.scale_bytes()
                                 : before_ * format_.value_bytes();
    return reader.Skip(begin_ + offset);
  }
  bool Read(bool scales, std::vector<uint8_t>& to) const {
    SliceReader reader = Reader();
    return Find(reader, scales) && reader.Read(to.data(), to.size());
  }
  SliceReader Reader() const { return SliceReader(message_.slices, message_.payload_offset); }

 private:
  const KvDataMessage& message_;
  const KvWireFormat& format_;
  const size_t tokens_;  // tokens of the message
  const size_t before_;  // tokens of the message before the range
  const size_t begin_;   // bytes of the payload before this layer's K or V
};

// Copies a range whose type on the wire is not the cache's. Each page is first converted in a
// buffer, so that the bytes in the block can be compared with it afterwards.
bool ConvertRange(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                  const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& to,
                  ReceiveEvent::CopyDone& done) {
  const auto tokens = static_cast<size_t>(range.tokens.size());
  const size_t row_bytes = to.blocks->layout.row_bytes();
  const size_t scale_bytes = to.blocks->layout.scale_bytes();
  std::vector<uint8_t> values(tokens * format.value_bytes());
  std::vector<uint8_t> scales(tokens * format.scale_bytes());
  std::vector<uint8_t> rows(kKvPageTokens * row_bytes);
  std::vector<uint8_t> row_scales(kKvPageTokens * scale_bytes);
  struct Crcs {
    uint32_t wire = 0;
    uint32_t converted = 0;
  };
  const std::vector<TokenRange> pages = PagesOf(range.tokens);
  std::vector<Crcs> crcs(pages.size());
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const RangePayload payload(copy, message, format, range, part);
    if (!payload.Read(false, values) || !payload.Read(true, scales)) return false;
    for (size_t i = 0; i < pages.size(); ++i) {
      const auto count = static_cast<size_t>(pages[i].size());
      const auto before = static_cast<size_t>(pages[i].begin - range.tokens.begin);
      const uint8_t* page_values = values.data() + before * format.value_bytes();
      const uint8_t* page_scales = scales.data() + before * format.scale_bytes();
      crcs[i].wire = ExtendCrc32c(crcs[i].wire, page_values, count * format.value_bytes());
      crcs[i].wire = ExtendCrc32c(crcs[i].wire, page_scales, count * format.scale_bytes());
      format.Decode(page_values, page_scales, count, rows.data(), row_scales.data());
      crcs[i].converted = ExtendCrc32c(crcs[i].converted, rows.data(), count * row_bytes);
      crcs[i].converted = ExtendCrc32c(crcs[i].converted, row_scales.data(), count * scale_bytes);
      // A page lies within one block, so this is called once.
      to.ForEachBlock(part, pages[i], [&](uint8_t* place, uint8_t* scales_place, size_t) {
        std::copy_n(rows.data(), count * row_bytes, place);
        std::copy_n(row_scales.data(), count * scale_bytes, scales_place);
      });
    }
  }
  bool in_place = true;
  for (size_t i = 0; i < pages.size(); ++i) {
    in_place = in_place && to.PageCrc(pages[i]) == crcs[i].converted;
    done.page_crcs.push_back(crcs[i].wire);
    done.block_crcs.push_back(crcs[i].converted);
  }
  return in_place;
}

}  // namespace

bool CopyRange(const ReceiveAction::Copy& copy, const KvDataMessage& message,
               const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& to,
               ReceiveEvent::CopyDone& done) {
  if (format.converts()) {
    done.ok = ConvertRange(copy, message, format, range, to, done) && done.ok;
    return done.ok;
  }
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const RangePayload payload(copy, message, format, range, part);
    for (const bool scales : {false, true}) {
      const size_t token_bytes = scales ? format.scale_bytes() : format.value_bytes();
      SliceReader reader = payload.Reader();
      done.ok = done.ok && payload.Find(reader, scales);
      to.ForEachBlock(part, range.tokens, [&](uint8_t* rows, uint8_t* row_scales, size_t tokens) {
        uint8_t* const place = scales ? row_scales : rows;
        done.ok = done.ok && reader.Read(place, tokens * token_bytes);
        BATON_FAILPOINT_BYTES("payload_copier.rows", place, tokens * token_bytes);
      });
    }
  }
  if (!done.ok) return false;
  for (const TokenRange page : PagesOf(range.tokens)) done.page_crcs.push_back(to.PageCrc(page));
  return true;
}

ReceiveEvent::CopyDone CopyPayload(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                                   const KvBlocks& blocks) {
  ReceiveEvent::CopyDone done{copy.copy_id, true, {}, {}};
  const KvWireFormat format(blocks.layout, copy.wire_type);
  for (const LayerTokens& range : copy.ranges) {
    if (!CopyRange(copy, message, format, range, RowsOfLayer(blocks, range.layer), done)) break;
  }
  return done;
}

}  // namespace baton
