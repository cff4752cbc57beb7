#include "decode_worker/payload_copier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/float_types.h"
#include "common/base/kv_type_name.h"
#include "prefill_worker/kv_buffer.h"
#include "prefill_worker/page_encoder.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using ::testing::HasSubstr;

constexpr int kTokens = 75;  // pages of 16, 16, 16, 16 and 11
constexpr uint8_t kUntouched = 0xEE;

// What `values`, whole heads, become when they are stored as `dtype`.
std::vector<float> As(KvType dtype, std::vector<float> values, int head_dim) {
  const auto step = static_cast<size_t>(head_dim);
  for (size_t i = 0; IsQuantised(dtype) && i < values.size(); i += step) {
    const StoredHead head = StoreHead(dtype, &values[i], head_dim);
    std::copy(head.values.begin(), head.values.end(), &values[i]);
  }
  for (float& value : values) {
    if (dtype == KvType::kF16) value = F16ToF32(F32ToF16(value));
    if (dtype == KvType::kBf16) value = Bf16ToF32(F32ToBf16(value));
  }
  return values;
}

// The blocks of a sequence in shuffled order, in memory of their own.
struct Blocks {
  Blocks(KvType dtype, int block_size, std::vector<int32_t> table)
      : layout{.layers = 3,
               .kv_heads = 2,
               .head_dim = 32,
               .block_size = block_size,
               .dtype = dtype},
        memory(layout.block_bytes() * 8, kUntouched),
        blocks{memory.data(), layout, std::move(table)} {}
  size_t values() const {
    return static_cast<size_t>(layout.kv_heads) * static_cast<size_t>(layout.head_dim);
  }

  void Set(int layer, KvLayout::Part part, int token, const std::vector<float>& x) {
    uint8_t* const row = blocks.Row(layer, part, token);
    if (IsQuantised(layout.dtype)) {
      StoreHeads({layout.block_size, layout.kv_heads, layout.head_dim, layout.dtype}, x.data(), row,
                 blocks.Scales(layer, part, token));
    } else if (layout.dtype == KvType::kF32) {
      std::memcpy(row, x.data(), layout.row_bytes());
    } else {
      for (size_t i = 0; i < x.size(); ++i) {
        const uint16_t half = layout.dtype == KvType::kF16 ? F32ToF16(x[i]) : F32ToBf16(x[i]);
        std::memcpy(row + 2 * i, &half, 2);
      }
    }
  }
  std::vector<float> Get(int layer, KvLayout::Part part, int token) const {
    const uint8_t* const row = blocks.Row(layer, part, token);
    std::vector<float> x(values());
    if (IsQuantised(layout.dtype)) {
      return LoadStoredHeads({layout.block_size, layout.kv_heads, layout.head_dim, layout.dtype},
                             row, blocks.Scales(layer, part, token));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      uint16_t half = 0;
      if (layout.dtype == KvType::kF32) {
        std::memcpy(&x[i], row + 4 * i, 4);
      } else {
        std::memcpy(&half, row + 2 * i, 2);
        x[i] = layout.dtype == KvType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
      }
    }
    return x;
  }

  KvLayout layout;
  std::vector<uint8_t> memory;
  KvBlocks blocks;
};

template <class Visit>
void ForEachRow(const Visit& visit) {
  for (int layer = 0; layer < 3; ++layer) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 0; token < kTokens; ++token) visit(layer, part, token);
    }
  }
}

void Fill(Blocks& blocks) {
  std::mt19937 random(7);
  std::normal_distribution<float> value(0, 3);
  ForEachRow([&](int layer, KvLayout::Part part, int token) {
    std::vector<float> x(blocks.values());
    for (float& element : x) element = value(random);
    blocks.Set(layer, part, token, x);
  });
}

bool AllUntouched(const uint8_t* bytes, size_t count) {
  return std::all_of(bytes, bytes + count, [](uint8_t byte) { return byte == kUntouched; });
}

std::vector<uint32_t> CachedCrcs(const KvBlocks& blocks, int layer, int first, int end) {
  std::vector<uint32_t> crcs;
  for (; first < end; first += kKvPageTokens) {
    crcs.push_back(blocks.PageCrc(layer, {first, std::min(end, first + kKvPageTokens)}));
  }
  return crcs;
}

// Layers 1 and 2, tokens 16 to the end.
KvDataHeader Header(const Blocks& source, const KvWireFormat& format) {
  KvDataHeader header;
  header.set_sequence_number(1);
  header.set_first_layer(1);
  header.set_layer_count(2);
  header.set_first_token(16);
  header.set_token_count(kTokens - 16);
  header.set_kv_head_count(2);
  for (int layer = 1; layer < 3; ++layer) {
    std::vector<uint32_t> crcs = CachedCrcs(source.blocks, layer, 16, kTokens);
    if (format.converts()) {
      crcs = *WirePageCrcs(RowsOfLayer(source.blocks, layer), format, {16, kTokens}, crcs);
    }
    header.mutable_page_crc32c()->Add(crcs.begin(), crcs.end());
  }
  return header;
}

KvDataMessage Message(const Blocks& source, const KvWireFormat& format,
                      const KvDataHeader& header) {
  const grpc::ByteBuffer buffer = format.converts()
                                      ? MakeConvertedKvBuffer(header, source.blocks, format, [] {})
                                      : MakeKvBuffer(header, source.blocks, [] {});
  std::string bytes;
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  // In slices that end anywhere.
  slices.clear();
  for (size_t at = 0; at < bytes.size(); at += 1001) {
    slices.emplace_back(bytes.data() + at, std::min<size_t>(1001, bytes.size() - at));
  }
  auto message = DecodeKvData(std::move(slices));
  EXPECT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->payload_bytes, 2 * 2 * (kTokens - 16) * format.row_bytes());
  return *std::move(message);
}

ReceiveAction::Copy CopyOf(const KvDataHeader& header, KvType wire) {
  // All of layer 1; of layer 2 a page in the middle, and the last.
  return {.copy_id = 9,
          .message_id = 1,
          .header = header,
          .ranges = {{1, {16, kTokens}}, {2, {32, 48}}, {2, {64, kTokens}}},
          .wire_type = wire};
}

bool Copied(int layer, int token) {
  return token >= 16 &&
         (layer == 1 || (layer == 2 && ((token >= 32 && token < 48) || token >= 64)));
}

struct Case {
  KvType from;
  KvType wire;
  KvType to;
};
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const KvType from : kAllKvTypes) {
    for (const KvType wire : kAllKvTypes) {
      for (const KvType to : kAllKvTypes) cases.push_back({from, wire, to});
    }
  }
  return cases;
}
std::string Name(const Case& c) {
  return std::string(KvTypeName(c.from)) + " over " + KvTypeName(c.wire) + " into " +
         KvTypeName(c.to);
}

class PayloadCopier : public ::testing::Test {
 protected:
  // Source blocks of 16 tokens, target blocks of 48.
  static Blocks Source(KvType dtype) {
    Blocks source(dtype, 16, {4, 0, 6, 2, 5});
    Fill(source);
    return source;
  }
  static Blocks Target(KvType dtype) { return Blocks(dtype, 48, {5, 2}); }
};

TEST_F(PayloadCopier, EveryTypeArrivesInEveryOtherAsItsRoundingSays) {
  for (const Case& c : AllCases()) {
    SCOPED_TRACE(Name(c));
    Blocks source = Source(c.from);
    Blocks target = Target(c.to);
    const KvWireFormat sent(source.layout, c.wire);
    const KvDataHeader header = Header(source, sent);
    const KvDataMessage message = Message(source, sent, header);
    const ReceiveEvent::CopyDone done = CopyPayload(CopyOf(header, c.wire), message, target.blocks);
    ASSERT_TRUE(done.ok);
    EXPECT_EQ(done.copy_id, 9u);
    const std::vector<int> in_header = {0, 1, 2, 3, 5, 7};
    ASSERT_EQ(done.page_crcs.size(), in_header.size());
    const std::vector<uint32_t>& in_place =
        done.block_crcs.empty() ? done.page_crcs : done.block_crcs;
    const std::pair<int, int> pages[] = {{1, 16}, {1, 32}, {1, 48}, {1, 64}, {2, 32}, {2, 64}};
    for (size_t i = 0; i < in_header.size(); ++i) {
      EXPECT_EQ(done.page_crcs[i], header.page_crc32c(in_header[i])) << i;
      const auto [layer, first] = pages[i];
      EXPECT_EQ(in_place[i], CachedCrcs(target.blocks, layer, first,
                                        std::min(kTokens, first + kKvPageTokens))[0]);
    }
    ForEachRow([&](int layer, KvLayout::Part part, int token) {
      if (!Copied(layer, token)) {
        const KvBlocks& there = target.blocks;
        const KvLayout& layout = target.layout;
        EXPECT_TRUE(AllUntouched(there.Row(layer, part, token), layout.row_bytes()));
        EXPECT_TRUE(AllUntouched(there.Scales(layer, part, token), layout.scale_bytes()));
        return;
      }
      // Each type on the way that is not the one before it rounds once more.
      const int head_dim = source.layout.head_dim;
      std::vector<float> expected = source.Get(layer, part, token);
      if (c.wire != c.from) expected = As(c.wire, expected, head_dim);
      if (c.to != c.wire) expected = As(c.to, expected, head_dim);
      ASSERT_EQ(target.Get(layer, part, token), expected)
          << "layer " << layer << " token " << token;
    });
  }
}

// In slices of `bytes` bytes, with empty ones between.
KvDataMessage Cut(const KvDataMessage& message, size_t bytes) {
  std::string payload(message.payload_bytes, '\0');
  SliceReader reader(message.slices, message.payload_offset);
  EXPECT_TRUE(reader.Read(payload.data(), payload.size()));
  KvDataMessage cut;
  cut.payload_bytes = payload.size();
  for (size_t at = 0; at < payload.size(); at += bytes) {
    cut.slices.emplace_back();
    cut.slices.emplace_back(payload.data() + at, std::min(bytes, payload.size() - at));
  }
  return cut;
}

TEST_F(PayloadCopier, ASlotGetsWhatBlocksGetHoweverTheNetworkCutThePayload) {
  for (const Case& c : AllCases()) {
    if (c.from != KvType::kF16) continue;  // the payload's type is what counts
    SCOPED_TRACE(Name(c));
    const Blocks source = Source(c.from);
    const KvWireFormat sent(source.layout, c.wire);
    const KvDataHeader header = Header(source, sent);
    const KvDataMessage message = Message(source, sent, header);
    const ReceiveAction::Copy copy = CopyOf(header, c.wire);
    Blocks target = Target(c.to);
    const ReceiveEvent::CopyDone expected = CopyPayload(copy, message, target.blocks);
    for (const size_t bytes : {size_t{5}, size_t{1024}, size_t{1} << 20}) {
      const KvDataMessage cut = Cut(message, bytes);
      ReceiveEvent::CopyDone done{copy.copy_id, true, {}, {}};
      for (const auto& [layer, tokens] : copy.ranges) {
        Blocks slot(c.to, 80, {0});
        slot.layout.layers = slot.blocks.layout.layers = 1;
        const KvLayerRows rows{&slot.blocks, layer, 0, tokens.begin};
        const KvWireFormat format(slot.layout, c.wire);
        ASSERT_TRUE(CopyRange(copy, cut, format, {layer, tokens}, rows, done));
        for (const TokenRange page : PagesOf(tokens)) {
          EXPECT_EQ(rows.PageCrc(page), target.blocks.PageCrc(layer, page));
        }
      }
      EXPECT_EQ(done.page_crcs, expected.page_crcs);
    }
  }
}

TEST_F(PayloadCopier, ACacheOfAnyTypeArrivesAsItIsInOneOfItsOwnType) {
  for (const KvType dtype : kAllKvTypes) {
    Blocks source = Source(dtype);
    Blocks target = Target(dtype);
    const KvWireFormat sent(source.layout, dtype);
    ASSERT_FALSE(sent.converts());
    const KvDataHeader header = Header(source, sent);
    const KvDataMessage message = Message(source, sent, header);
    ASSERT_TRUE(CopyPayload(CopyOf(header, sent.type()), message, target.blocks).ok);
    ForEachRow([&](int layer, KvLayout::Part part, int token) {
      if (!Copied(layer, token)) return;
      const KvLayout& layout = source.layout;
      EXPECT_EQ(std::memcmp(source.blocks.Row(layer, part, token),
                            target.blocks.Row(layer, part, token), layout.row_bytes()),
                0);
      EXPECT_EQ(std::memcmp(source.blocks.Scales(layer, part, token),
                            target.blocks.Scales(layer, part, token), layout.scale_bytes()),
                0);
    });
  }
}

TEST_F(PayloadCopier, AFlippedBitOfAPageShowsInItsCrcWhateverTheTypes) {
  std::mt19937 random(3);
  for (const Case& c : {Case{KvType::kF16, KvType::kF16, KvType::kF16},
                        Case{KvType::kF32, KvType::kF32, KvType::kF16},
                        Case{KvType::kF16, KvType::kInt8, KvType::kBf16},
                        Case{KvType::kFp8, KvType::kFp8, KvType::kFp8},
                        Case{KvType::kInt8, KvType::kInt8, KvType::kF16}}) {
    SCOPED_TRACE(Name(c));
    Blocks source = Source(c.from);
    const KvWireFormat sent(source.layout, c.wire);
    const KvDataHeader header = Header(source, sent);
    ReceiveAction::Copy copy = CopyOf(header, c.wire);
    copy.ranges = {{1, {16, kTokens}}, {2, {16, kTokens}}};
    for (int flip = 0; flip < 200; ++flip) {
      const KvDataMessage message = Message(source, sent, header);
      std::string payload(message.payload_bytes, '\0');
      SliceReader reader(message.slices, message.payload_offset);
      ASSERT_TRUE(reader.Read(payload.data(), payload.size()));
      const size_t at = random() % payload.size();
      payload[at] = static_cast<char>(payload[at] ^ (1 << random() % 8));
      KvDataMessage damaged;
      damaged.slices = {grpc::Slice(payload)};
      damaged.payload_bytes = payload.size();
      Blocks target = Target(c.to);
      const ReceiveEvent::CopyDone done = CopyPayload(copy, damaged, target.blocks);
      ASSERT_TRUE(done.ok);
      int different = 0;
      for (int i = 0; i < header.page_crc32c_size(); ++i) {
        different += done.page_crcs[static_cast<size_t>(i)] != header.page_crc32c(i);
      }
      EXPECT_EQ(different, 1) << "byte " << at;
    }
  }
}

TEST_F(PayloadCopier, APayloadThatIsTooShortIsNotOk) {
  Blocks source = Source(KvType::kF16);
  Blocks target = Target(KvType::kF16);
  const KvWireFormat sent(source.layout, KvType::kInt8);
  const KvDataHeader header = Header(source, sent);
  KvDataMessage message = Message(source, sent, header);
  message.slices.pop_back();
  const ReceiveAction::Copy copy = CopyOf(header, KvType::kInt8);
  EXPECT_FALSE(CopyPayload(copy, message, target.blocks).ok);
  Blocks slot(KvType::kF16, 80, {0});
  const KvLayerRows rows{&slot.blocks, 2, 0, 64};
  ReceiveEvent::CopyDone done{copy.copy_id, true, {}, {}};
  EXPECT_FALSE(CopyRange(copy, message, KvWireFormat(slot.layout, KvType::kInt8), copy.ranges[2],
                         rows, done));
  EXPECT_FALSE(done.ok);
}

TEST_F(PayloadCopier, ABlockThatDoesNotKeepWhatWasConvertedIntoItIsNotOk) {
  Blocks source = Source(KvType::kF16);
  Blocks target(KvType::kF16, 48, {5, 5});  // tokens 16 and 64 have one place
  const KvWireFormat sent(source.layout, KvType::kInt8);
  const KvDataHeader header = Header(source, sent);
  const KvDataMessage message = Message(source, sent, header);
  EXPECT_FALSE(CopyPayload(CopyOf(header, KvType::kInt8), message, target.blocks).ok);
}

TEST(PageEncoder, APageThatChangedSinceItWasComputedIsNotSent) {
  Blocks source(KvType::kF16, 16, {4, 0, 6, 2, 5});
  Fill(source);
  const KvWireFormat format(source.layout, KvType::kInt8);
  const std::vector<uint32_t> crcs = CachedCrcs(source.blocks, 1, 0, kTokens);
  ASSERT_TRUE(WirePageCrcs(RowsOfLayer(source.blocks, 1), format, {0, kTokens}, crcs).ok());
  source.blocks.Row(1, KvLayout::kValues, 70)[3] ^= 1;
  const absl::Status status =
      WirePageCrcs(RowsOfLayer(source.blocks, 1), format, {0, kTokens}, crcs).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 1, tokens 64 to 74"));
  EXPECT_TRUE(WirePageCrcs(RowsOfLayer(source.blocks, 2), format, {0, kTokens},
                           CachedCrcs(source.blocks, 2, 0, kTokens))
                  .ok());
}

TEST(PageEncoder, AnInfiniteValueIsRefusedAsInt8AndTheRemedyNamed) {
  Blocks source(KvType::kBf16, 16, {4, 0, 6, 2, 5});
  Fill(source);
  std::vector<float> row = source.Get(0, KvLayout::kKeys, 20);
  row[47] = INFINITY;
  source.Set(0, KvLayout::kKeys, 20, row);
  const std::vector<uint32_t> crcs = CachedCrcs(source.blocks, 0, 0, kTokens);
  const absl::Status status =
      WirePageCrcs(RowsOfLayer(source.blocks, 0), KvWireFormat(source.layout, KvType::kInt8),
                   {0, kTokens}, crcs)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 0, tokens 16 to 31"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--kv-wire-dtype"));
  EXPECT_TRUE(WirePageCrcs(RowsOfLayer(source.blocks, 0), KvWireFormat(source.layout, KvType::kF32),
                           {0, kTokens}, crcs)
                  .ok());
}

}  // namespace
}  // namespace baton
