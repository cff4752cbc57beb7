#include "prefill_worker/kv_buffer.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/handoff/kv_wire.h"
#include "prefill_worker/page_encoder.h"

namespace baton {
namespace {

// The size of a slice of copied bytes: below that from which malloc asks the system each time.
constexpr size_t kCopiedSliceBytes = size_t{64} << 10;

// Counts a reference for each slice and one for the builder. Deletes itself with the last one.
class Pin {
 public:
  explicit Pin(std::function<void()> released) : released_(std::move(released)) {}
  void Add() { references_.fetch_add(1, std::memory_order_relaxed); }
  static void Remove(void* pin) {
    auto* self = static_cast<Pin*>(pin);
    if (self->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    self->released_();
    delete self;
  }

 private:
  std::atomic<int> references_ = 1;
  const std::function<void()> released_;
};

// Contiguous bytes in the blocks.
struct ByteRange {
  uint8_t* bytes = nullptr;
  size_t size = 0;
};

void AddRange(std::vector<ByteRange>& ranges, uint8_t* bytes, size_t size) {
  if (!ranges.empty() && ranges.back().bytes + ranges.back().size == bytes) {
    ranges.back().size += size;
  } else {
    ranges.push_back({bytes, size});
  }
}

// Makes a slice of each long range, and one slice of copied bytes of consecutive short ranges.
void AddSlices(const std::vector<ByteRange>& ranges, Pin* pin, std::vector<grpc::Slice>& slices) {
  for (size_t i = 0; i < ranges.size();) {
    if (ranges[i].size >= kMinKvSliceBytes) {
      pin->Add();
      slices.emplace_back(ranges[i].bytes, ranges[i].size, &Pin::Remove, pin);
      ++i;
      continue;
    }
    size_t end = i;
    size_t size = 0;
    while (end < ranges.size() && ranges[end].size < kMinKvSliceBytes &&
           size + ranges[end].size <= kCopiedSliceBytes) {
      size += ranges[end++].size;
    }
    grpc::Slice copy(size);
    auto* to = const_cast<uint8_t*>(copy.begin());
    for (; i < end; ++i) to = std::copy_n(ranges[i].bytes, ranges[i].size, to);
    slices.push_back(std::move(copy));
  }
}

// A converted payload. Deletes itself with its slice.
struct Converted {
  std::unique_ptr<uint8_t[]> payload;
  std::function<void()> released;
  static void Destroy(void* message) {
    const std::unique_ptr<Converted> self(static_cast<Converted*>(message));
    self->released();
  }
};

std::vector<KvLayerRows> RowsInBlocks(const internal::v1::KvDataHeader& header,
                                      const KvBlocks& blocks) {
  std::vector<KvLayerRows> layers;
  for (uint32_t i = 0; i < header.layer_count(); ++i) {
    layers.push_back(RowsOfLayer(blocks, static_cast<int>(header.first_layer() + i)));
  }
  return layers;
}

}  // namespace

grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header, const KvBlocks& blocks,
                              std::function<void()> released) {
  return MakeKvBuffer(header, RowsInBlocks(header, blocks), std::move(released));
}

grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header,
                              absl::Span<const KvLayerRows> layers,
                              std::function<void()> released) {
  BATON_CHECK(layers.size() == header.layer_count(), "the rows of each layer");
  std::string header_bytes = header.SerializeAsString();
  const uint32_t header_crc = Crc32c(header_bytes.data(), header_bytes.size());
  BATON_FAILPOINT_BYTES("kv_buffer.header", header_bytes.data(), header_bytes.size());
  const KvLayout& layout = layers.front().blocks->layout;
  const size_t payload_bytes =
      layers.size() * header.token_count() * 2 * (layout.row_bytes() + layout.scale_bytes());

  auto* pin = new Pin(std::move(released));
  std::vector<grpc::Slice> slices;
  slices.emplace_back(EncodeKvDataPrefix(header_bytes, header_crc, payload_bytes));
  std::vector<ByteRange> ranges;
  const auto add = [&ranges](uint8_t* bytes, size_t size) { AddRange(ranges, bytes, size); };
  for (const KvLayerRows& layer : layers) {
    layer.ForEachByteRange(KvLayout::kKeys, TokensOf(header), add);
    layer.ForEachByteRange(KvLayout::kValues, TokensOf(header), add);
  }
  AddSlices(ranges, pin, slices);
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  slices.clear();
  Pin::Remove(pin);
  return buffer;
}

grpc::ByteBuffer MakeConvertedKvBuffer(const internal::v1::KvDataHeader& header,
                                       const KvBlocks& blocks, const KvWireFormat& format,
                                       std::function<void()> released) {
  const size_t part_bytes = header.token_count() * format.row_bytes();
  const size_t payload_bytes = size_t{header.layer_count()} * 2 * part_bytes;
  auto* message =
      new Converted{std::make_unique_for_overwrite<uint8_t[]>(payload_bytes), std::move(released)};
  uint8_t* to = message->payload.get();
  for (const KvLayerRows& layer : RowsInBlocks(header, blocks)) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      // A value that the wire type cannot represent was refused when the pages' CRCs were made. If
      // one came up since, the receiver sees that the CRC differs.
      (void)EncodeTokens(layer, format, part, TokensOf(header), to);
      to += part_bytes;
    }
  }
  const std::string header_bytes = header.SerializeAsString();
  const grpc::Slice slices[] = {
      EncodeKvDataPrefix(header_bytes, Crc32c(header_bytes.data(), header_bytes.size()),
                         payload_bytes),
      grpc::Slice(message->payload.get(), payload_bytes, &Converted::Destroy, message)};
  return grpc::ByteBuffer(slices, std::size(slices));
}

}  // namespace baton
