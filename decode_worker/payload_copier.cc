#include "decode_worker/payload_copier.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace baton {
namespace {

using Run = KvReceiver::Run;

// One layer's K or V rows of the message: those of [run, run_end) are written, the others skipped.
bool CopyRows(SliceReader& reader, const KvBlocks& blocks, const internal::v1::KvDataHeader& header,
              KvLayout::Part part, const Run* run, const Run* run_end, int layer) {
  const size_t row_bytes = blocks.layout.row_bytes();
  int token = static_cast<int>(header.first_token());
  const int end = token + static_cast<int>(header.token_count());
  bool ok = true;
  const auto read = [&](uint8_t* to, size_t bytes) { ok = ok && reader.Read(to, bytes); };
  for (; run != run_end; ++run) {
    ok = ok && reader.Skip(static_cast<size_t>(run->first_token - token) * row_bytes);
    token = run->first_token + run->token_count;
    if (ok) blocks.ForEachRun(layer, part, run->first_token, token, read);
  }
  return ok && reader.Skip(static_cast<size_t>(end - token) * row_bytes);
}

// visit(first token, end token) of each page of the runs, in order.
template <class Visit>
void ForEachPage(const Run* run, const Run* run_end, const Visit& visit) {
  for (; run != run_end; ++run) {
    const int end = run->first_token + run->token_count;
    for (int first = run->first_token; first < end; first += kKvPageTokens) {
      visit(first, std::min(first + kKvPageTokens, end));
    }
  }
}

// One layer of a message whose type is not the cache's. Each page is converted beside the blocks
// first, so that what was written can be compared with what was meant.
bool ConvertLayer(SliceReader& reader, const KvBlocks& blocks, const KvWireFormat& format,
                  const internal::v1::KvDataHeader& header, const Run* run, const Run* run_end,
                  int layer, KvReceiver::CopyDone& done) {
  const auto tokens = static_cast<size_t>(header.token_count());
  const int message_first = static_cast<int>(header.first_token());
  std::vector<uint8_t> part_bytes(tokens * format.row_bytes());
  std::vector<uint8_t> rows(size_t{kKvPageTokens} * blocks.layout.row_bytes());
  struct Crcs {
    uint32_t wire = 0;
    uint32_t converted = 0;
  };
  std::vector<Crcs> crcs(static_cast<size_t>(KvPages(static_cast<int>(tokens))));
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    if (!reader.Read(part_bytes.data(), part_bytes.size())) return false;
    Crcs* page = crcs.data();
    ForEachPage(run, run_end, [&](int first, int end) {
      const auto count = static_cast<size_t>(end - first);
      const auto before = static_cast<size_t>(first - message_first);
      const uint8_t* values = part_bytes.data() + before * format.value_bytes();
      const uint8_t* scales =
          part_bytes.data() + tokens * format.value_bytes() + before * format.scale_bytes();
      page->wire = ExtendCrc32c(page->wire, values, count * format.value_bytes());
      page->wire = ExtendCrc32c(page->wire, scales, count * format.scale_bytes());
      format.Decode(values, scales, count, rows.data());
      page->converted =
          ExtendCrc32c(page->converted, rows.data(), count * blocks.layout.row_bytes());
      const uint8_t* from = rows.data();
      blocks.ForEachRun(layer, part, first, end, [&from](uint8_t* to, size_t bytes) {
        std::memcpy(to, from, bytes);
        from += bytes;
      });
      ++page;
    });
  }
  bool in_place = true;
  const Crcs* page = crcs.data();
  ForEachPage(run, run_end, [&](int first, int end) {
    in_place = in_place && blocks.PageCrc(layer, first, end) == page->converted;
    done.page_crcs.push_back(page->wire);
    done.block_crcs.push_back(page->converted);
    ++page;
  });
  return in_place;
}

// One layer of a message of the cache's type.
bool CopyLayer(SliceReader& reader, const KvBlocks& blocks,
               const internal::v1::KvDataHeader& header, const Run* run, const Run* run_end,
               int layer, KvReceiver::CopyDone& done) {
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    if (!CopyRows(reader, blocks, header, part, run, run_end, layer)) return false;
  }
  ForEachPage(run, run_end, [&](int first, int end) {
    done.page_crcs.push_back(blocks.PageCrc(layer, first, end));
  });
  return true;
}

}  // namespace

KvReceiver::CopyDone CopyPayload(const KvReceiver::Copy& copy, const KvDataMessage& message,
                                 const KvBlocks& blocks) {
  KvReceiver::CopyDone done{copy.copy_id, true, {}, {}};
  const KvWireFormat format(blocks.layout, copy.wire_type);
  SliceReader reader(message.slices, message.payload_offset);
  const Run* run = copy.runs.data();
  const Run* const end = run + copy.runs.size();
  const int first_layer = static_cast<int>(copy.header.first_layer());
  const int end_layer = first_layer + static_cast<int>(copy.header.layer_count());
  for (int layer = first_layer; layer < end_layer; ++layer) {
    const Run* const layer_end =
        std::find_if(run, end, [layer](const Run& r) { return r.layer != layer; });
    done.ok = done.ok &&
              (format.converts()
                   ? ConvertLayer(reader, blocks, format, copy.header, run, layer_end, layer, done)
                   : CopyLayer(reader, blocks, copy.header, run, layer_end, layer, done));
    run = layer_end;
  }
  return done;
}

}  // namespace baton
