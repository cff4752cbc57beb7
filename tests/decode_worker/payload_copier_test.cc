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
#include "tests/support/shuffled_blocks.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using Blocks = ShuffledBlocks;

constexpr int kTokens = 75;  // pages of 16, 16, 16, 16 and 11
constexpr uint8_t kUntouched = ShuffledBlocks::kUntouched;

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

template <class Visit>
void ForEachRow(const Visit& visit) {
  for (int layer = 0; layer < 3; ++layer) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 0; token < kTokens; ++token) visit(layer, part, token);
    }
  }
}

bool AllUntouched(const uint8_t* bytes, size_t count) {
  return std::all_of(bytes, bytes + count, [](uint8_t byte) { return byte == kUntouched; });
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
    source.Fill(kTokens);
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

}  // namespace
}  // namespace baton
