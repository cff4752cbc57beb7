#include "decode_worker/payload_copier.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"

namespace baton {
namespace {

// Finds the K or V of a range in the payload.
class RangePayload {
 public:
  // tests/planted_bugs: copy_at_a_wrong_row
  RangePayload(const ReceiveAction::Copy& copy, const KvDataMessage& message,
               const KvWireFormat& format, const LayerTokens& range, KvLayout::Part part)
      : message_(message),
        format_(format),
        tokens_(copy.header.token_count()),
        before_(static_cast<size_t>(range.tokens.begin) - copy.header.first_token()),
        begin_((2 * (static_cast<size_t>(range.layer) - copy.header.first_layer()) + part) *
               tokens_ * format.row_bytes()) {}

  // Moves `reader` to the first value, or scale, of the range; false if the payload is too
  // short.
  bool Find(SliceReader& reader, bool scales) const {
    const size_t offset = scales ? tokens_ * format_.value_bytes() + before_ * format_.scale_bytes()
                                 : before_ * format_.value_bytes();
    return reader.Skip(begin_ + offset);
  }
  SliceReader Reader() const { return SliceReader(message_.slices, message_.payload_offset); }

 private:
  const KvDataMessage& message_;
  const KvWireFormat& format_;
  const size_t tokens_;  // tokens of the message
  const size_t before_;  // tokens of the message before the range
  const size_t begin_;   // bytes of the payload before this layer's K or V
};

// Converts rows of a payload where the network put them. Rows that lie across the border of slices
// go through a buffer.
class RowConverter {
 public:
  RowConverter(const KvWireFormat& format, size_t row_bytes, size_t row_scale_bytes)
      : format_(format),
        row_bytes_(row_bytes),
        row_scale_bytes_(row_scale_bytes),
        row_(format.value_bytes()),
        scales_(size_t{kKvPageTokens} * format.scale_bytes()) {}

  // Converts `count` rows, at most a page, to `rows` and `row_scales`, and extends `crc` by their
  // bytes on the wire. False if the payload is too short.
  bool Convert(SliceReader& values, SliceReader& scales, size_t count, uint8_t* rows,
               uint8_t* row_scales, uint32_t& crc) {
    const size_t value_bytes = format_.value_bytes();
    const size_t scale_bytes = format_.scale_bytes();
    if (!scales.Read(scales_.data(), count * scale_bytes)) return false;
    for (size_t row = 0; row < count;) {
      const absl::Span<const uint8_t> run = values.Run();
      const size_t whole = std::min(count - row, run.size() / value_bytes);
      const size_t next = std::max<size_t>(whole, 1);
      if (whole == 0 ? !values.Read(row_.data(), value_bytes) : !values.Skip(whole * value_bytes)) {
        return false;
      }
      const uint8_t* const from = whole == 0 ? row_.data() : run.data();
      crc = ExtendCrc32c(crc, from, next * value_bytes);
      format_.Decode(from, scales_.data() + row * scale_bytes, next, rows + row * row_bytes_,
                     row_scales + row * row_scale_bytes_);
      row += next;
    }
    crc = ExtendCrc32c(crc, scales_.data(), count * scale_bytes);
    return true;
  }

 private:
  const KvWireFormat& format_;
  const size_t row_bytes_;        // a row's values in the cache
  const size_t row_scale_bytes_;  // a row's scales in the cache
  std::vector<uint8_t> row_;      // values of one row on the wire
  std::vector<uint8_t> scales_;   // scales of a page on the wire
};

// Calls convert(values, scales, part, page, number of the page in the range) for each page, all of
// K before V; the readers stand at the page's first value and scale. False as soon as one call
// returns false, or where the payload is too short.
template <class ConvertPage>
bool ForEachPage(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                 const KvWireFormat& format, const LayerTokens& range, const ConvertPage& convert) {
  const std::vector<TokenRange> pages = PagesOf(range.tokens);
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const RangePayload payload(copy, message, format, range, part);
    SliceReader values = payload.Reader();
    SliceReader scales = payload.Reader();
    if (!payload.Find(values, false) || !payload.Find(scales, true)) return false;
    for (size_t i = 0; i < pages.size(); ++i) {
      if (!convert(values, scales, part, pages[i], i)) return false;
    }
  }
  return true;
}

// Converts a range into blocks. Each page is first converted in a buffer, so that the bytes in the
// block can be compared with it afterwards.
bool ConvertIntoBlocks(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                       const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& to,
                       ReceiveEvent::CopyDone& done) {
  const size_t row_bytes = to.blocks->layout.row_bytes();
  const size_t scale_bytes = to.blocks->layout.scale_bytes();
  std::vector<uint8_t> rows(kKvPageTokens * row_bytes);
  std::vector<uint8_t> row_scales(kKvPageTokens * scale_bytes);
  RowConverter converter(format, row_bytes, scale_bytes);
  std::vector<uint32_t> wire_crcs(static_cast<size_t>(KvPages(range.tokens.size())));
  std::vector<uint32_t> crcs(wire_crcs.size());
  const auto convert = [&](SliceReader& values, SliceReader& scales, KvLayout::Part part,
                           TokenRange page, size_t i) {
    const auto count = static_cast<size_t>(page.size());
    if (!converter.Convert(values, scales, count, rows.data(), row_scales.data(), wire_crcs[i])) {
      return false;
    }
    crcs[i] = ExtendCrc32c(crcs[i], rows.data(), count * row_bytes);
    crcs[i] = ExtendCrc32c(crcs[i], row_scales.data(), count * scale_bytes);
    // A page lies within one block, so this is called once.
    to.ForEachBlock(part, page, [&](uint8_t* place, uint8_t* scales_place, size_t) {
      std::copy_n(rows.data(), count * row_bytes, place);
      std::copy_n(row_scales.data(), count * scale_bytes, scales_place);
    });
    return true;
  };
  if (!ForEachPage(copy, message, format, range, convert)) return false;
  bool in_place = true;
  size_t i = 0;
  for (const TokenRange page : PagesOf(range.tokens)) {
    in_place = to.PageCrc(page) == crcs[i++] && in_place;
  }
  done.page_crcs.insert(done.page_crcs.end(), wire_crcs.begin(), wire_crcs.end());
  done.block_crcs.insert(done.block_crcs.end(), crcs.begin(), crcs.end());
  return in_place;
}

// Converts a range into memory to which no other thread writes.
bool ConvertStraight(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                     const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& to,
                     ReceiveEvent::CopyDone& done) {
  const KvLayout& layout = to.blocks->layout;
  RowConverter converter(format, layout.row_bytes(), layout.scale_bytes());
  std::vector<uint32_t> crcs(static_cast<size_t>(KvPages(range.tokens.size())));
  const auto convert = [&](SliceReader& values, SliceReader& scales, KvLayout::Part part,
                           TokenRange page, size_t i) {
    bool converted = true;
    to.ForEachBlock(part, page, [&](uint8_t* rows, uint8_t* row_scales, size_t count) {
      converted = converter.Convert(values, scales, count, rows, row_scales, crcs[i]) && converted;
    });
    return converted;
  };
  if (!ForEachPage(copy, message, format, range, convert)) return false;
  done.page_crcs.insert(done.page_crcs.end(), crcs.begin(), crcs.end());
  return true;
}

// Copies a range whose type on the wire is the cache's.
bool CopyAsItIs(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& to,
                ReceiveEvent::CopyDone& done) {
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const RangePayload payload(copy, message, format, range, part);
    for (const bool scales : {false, true}) {
      const size_t token_bytes = scales ? format.scale_bytes() : format.value_bytes();
      SliceReader reader = payload.Reader();
      bool read = payload.Find(reader, scales);
      to.ForEachBlock(part, range.tokens, [&](uint8_t* rows, uint8_t* row_scales, size_t tokens) {
        uint8_t* const place = scales ? row_scales : rows;
        read = read && reader.Read(place, tokens * token_bytes);
        BATON_FAILPOINT_BYTES("payload_copier.rows", place, tokens * token_bytes);
      });
      if (!read) return false;
    }
  }
  for (const TokenRange page : PagesOf(range.tokens)) done.page_crcs.push_back(to.PageCrc(page));
  return true;
}

}  // namespace

bool CopyRange(const ReceiveAction::Copy& copy, const KvDataMessage& message,
               const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& slot,
               ReceiveEvent::CopyDone& done) {
  const auto copy_range = format.converts() ? &ConvertStraight : &CopyAsItIs;
  done.ok = copy_range(copy, message, format, range, slot, done) && done.ok;
  return done.ok;
}

ReceiveEvent::CopyDone CopyPayload(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                                   const KvBlocks& blocks) {
  ReceiveEvent::CopyDone done{copy.copy_id, true, {}, {}};
  const KvWireFormat format(blocks.layout, copy.wire_type);
  const auto copy_range = format.converts() ? &ConvertIntoBlocks : &CopyAsItIs;
  for (const LayerTokens& range : copy.ranges) {
    const KvLayerRows rows = RowsOfLayer(blocks, range.layer);
    done.ok = copy_range(copy, message, format, range, rows, done);
    if (!done.ok) break;
  }
  return done;
}

}  // namespace baton
