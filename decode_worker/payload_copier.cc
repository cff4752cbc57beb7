#include "decode_worker/payload_copier.h"

#include <algorithm>
#include <vector>

#include "common/base/failpoint.h"

namespace baton {
namespace {

using Run = KvReceiver::Run;

// Where a run's K or V is in the payload.
class RunPayload {
 public:
  RunPayload(const KvReceiver::Copy& copy, const KvDataMessage& message, const KvWireFormat& format,
             const Run& run, KvLayout::Part part)
      : message_(message),
        format_(format),
        tokens_(copy.header.token_count()),
        before_(static_cast<size_t>(run.first_token) - copy.header.first_token()),
        begin_((2 * (static_cast<size_t>(run.layer) - copy.header.first_layer()) + part) * tokens_ *
               format.row_bytes()) {}

  // At the first of the run's values, or scales; false where the payload is too short.
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
  const size_t tokens_;  // of the message
  const size_t before_;  // of these, those before the run
  const size_t begin_;   // bytes of the payload before this K or V
};

// visit(first token, end token) of each page of the run, in order.
template <class Visit>
void ForEachPage(const Run& run, const Visit& visit) {
  const int end = run.first_token + run.token_count;
  for (int first = run.first_token; first < end; first += kKvPageTokens) {
    visit(first, std::min(first + kKvPageTokens, end));
  }
}

// A run whose type on the wire is not the cache's. Each page is converted beside its place first,
// so that what was written can be compared with what was meant.
bool ConvertRun(const KvReceiver::Copy& copy, const KvDataMessage& message,
                const KvWireFormat& format, const Run& run, const KvLayerRows& to,
                KvReceiver::CopyDone& done) {
  const auto tokens = static_cast<size_t>(run.token_count);
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
  std::vector<Crcs> crcs(static_cast<size_t>(KvPages(run.token_count)));
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const RunPayload payload(copy, message, format, run, part);
    if (!payload.Read(false, values) || !payload.Read(true, scales)) return false;
    Crcs* page = crcs.data();
    ForEachPage(run, [&](int first, int end) {
      const auto count = static_cast<size_t>(end - first);
      const auto before = static_cast<size_t>(first - run.first_token);
      const uint8_t* page_values = values.data() + before * format.value_bytes();
      const uint8_t* page_scales = scales.data() + before * format.scale_bytes();
      page->wire = ExtendCrc32c(page->wire, page_values, count * format.value_bytes());
      page->wire = ExtendCrc32c(page->wire, page_scales, count * format.scale_bytes());
      format.Decode(page_values, page_scales, count, rows.data(), row_scales.data());
      page->converted = ExtendCrc32c(page->converted, rows.data(), count * row_bytes);
      page->converted = ExtendCrc32c(page->converted, row_scales.data(), count * scale_bytes);
      // A page is whole in its block.
      to.ForEachBlock(part, first, end, [&](uint8_t* place, uint8_t* scales_place, size_t) {
        std::copy_n(rows.data(), count * row_bytes, place);
        std::copy_n(row_scales.data(), count * scale_bytes, scales_place);
      });
      ++page;
    });
  }
  bool in_place = true;
  const Crcs* page = crcs.data();
  ForEachPage(run, [&](int first, int end) {
    in_place = in_place && to.PageCrc(first, end) == page->converted;
    done.page_crcs.push_back(page->wire);
    done.block_crcs.push_back(page->converted);
    ++page;
  });
  return in_place;
}

}  // namespace

bool CopyRun(const KvReceiver::Copy& copy, const KvDataMessage& message, const KvWireFormat& format,
             const Run& run, const KvLayerRows& to, KvReceiver::CopyDone& done) {
  if (format.converts()) {
    done.ok = ConvertRun(copy, message, format, run, to, done) && done.ok;
    return done.ok;
  }
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    const RunPayload payload(copy, message, format, run, part);
    for (const bool scales : {false, true}) {
      const size_t token_bytes = scales ? format.scale_bytes() : format.value_bytes();
      SliceReader reader = payload.Reader();
      done.ok = done.ok && payload.Find(reader, scales);
      to.ForEachBlock(part, run.first_token, run.first_token + run.token_count,
                      [&](uint8_t* rows, uint8_t* row_scales, size_t tokens) {
                        uint8_t* const place = scales ? row_scales : rows;
                        done.ok = done.ok && reader.Read(place, tokens * token_bytes);
                        BATON_FAILPOINT_BYTES("payload_copier.rows", place, tokens * token_bytes);
                      });
    }
  }
  if (!done.ok) return false;
  ForEachPage(run, [&](int first, int end) { done.page_crcs.push_back(to.PageCrc(first, end)); });
  return true;
}

KvReceiver::CopyDone CopyPayload(const KvReceiver::Copy& copy, const KvDataMessage& message,
                                 const KvBlocks& blocks) {
  KvReceiver::CopyDone done{copy.copy_id, true, {}, {}};
  const KvWireFormat format(blocks.layout, copy.wire_type);
  for (const Run& run : copy.runs) {
    if (!CopyRun(copy, message, format, run, RowsOfLayer(blocks, run.layer), done)) break;
  }
  return done;
}

}  // namespace baton
