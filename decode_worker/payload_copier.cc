#include "decode_worker/payload_copier.h"

#include <algorithm>

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

}  // namespace

KvReceiver::CopyDone CopyPayload(const KvReceiver::Copy& copy, const KvDataMessage& message,
                                 const KvBlocks& blocks) {
  KvReceiver::CopyDone done{copy.copy_id, true, {}};
  SliceReader reader(message.slices, message.payload_offset);
  const Run* run = copy.runs.data();
  const Run* const end = run + copy.runs.size();
  const int first_layer = static_cast<int>(copy.header.first_layer());
  const int end_layer = first_layer + static_cast<int>(copy.header.layer_count());
  for (int layer = first_layer; layer < end_layer; ++layer) {
    const Run* const layer_end =
        std::find_if(run, end, [layer](const Run& r) { return r.layer != layer; });
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      if (!CopyRows(reader, blocks, copy.header, part, run, layer_end, layer)) {
        done.ok = false;
        return done;
      }
    }
    run = layer_end;
  }
  for (const Run& copied : copy.runs) {
    const int run_end = copied.first_token + copied.token_count;
    for (int first = copied.first_token; first < run_end; first += kKvPageTokens) {
      done.page_crcs.push_back(
          blocks.PageCrc(copied.layer, first, std::min(first + kKvPageTokens, run_end)));
    }
  }
  return done;
}

}  // namespace baton
