#include "prefill_worker/kv_buffer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/crc32c.h"
#include "common/handoff/kv_wire.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushRequest;

struct Fixture {
  explicit Fixture(int block_size, int head_dim = 8)
      : layout{.layers = 4, .kv_heads = 2, .head_dim = head_dim, .block_size = block_size} {
    memory.resize(layout.block_bytes() * 8);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint8_t>(i * 131 >> 3);
    blocks = {memory.data(), layout, {5, 2, 7, 0, 3, 1}};
    header.mutable_key()->set_attempt(3);
    header.set_sequence_number(9);
    header.set_first_layer(1);
    header.set_layer_count(2);
    header.set_first_token(16);
    header.set_token_count(55);
    header.set_kv_head_count(2);
    for (uint32_t i = 0; i < 8; ++i) header.add_page_crc32c(i * 77777u);
  }
  size_t payload_bytes() const { return 2 * 55 * 2 * layout.row_bytes(); }

  KvLayout layout;
  std::vector<uint8_t> memory;
  KvBlocks blocks;
  KvDataHeader header;
  int released = 0;
};

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::string ExpectedPayload(const Fixture& f) {
  std::string payload;
  for (int layer = 1; layer < 3; ++layer) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 16; token < 71; ++token) {
        payload.append(reinterpret_cast<const char*>(f.blocks.Row(layer, part, token)),
                       f.layout.row_bytes());
      }
    }
  }
  return payload;
}

TEST(KvBuffer, IsTheMessageThatProtobufWouldHaveMade) {
  for (const int block_size : {16, 32, 48}) {
    Fixture f(block_size);
    const std::string bytes = Bytes(MakeKvBuffer(f.header, f.blocks, [] {}));
    PushRequest message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    const std::string header = f.header.SerializeAsString();
    EXPECT_EQ(message.data().header().SerializeAsString(), header);
    EXPECT_EQ(message.data().header_crc32c(), Crc32c(header.data(), header.size()));
    EXPECT_EQ(message.data().payload(), ExpectedPayload(f));
    EXPECT_EQ(message.SerializeAsString(), bytes) << "byte for byte";
  }
}

std::vector<grpc::Slice> SlicesOf(const Fixture& f) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(MakeKvBuffer(f.header, f.blocks, [] {}).Dump(&slices).ok());
  return slices;
}

bool PointsIntoTheBlocks(const grpc::Slice& slice, const Fixture& f) {
  return slice.begin() >= f.memory.data() && slice.end() <= f.memory.data() + f.memory.size();
}

TEST(KvBuffer, LongRunsPointIntoTheBlocksAndShortOnesAreCopiedTogether) {
  for (const int head_dim : {8, 64, 96, 128, 192}) {  // runs of a block: 1 to 24 KiB
    const Fixture f(32, head_dim);
    const auto slices = SlicesOf(f);
    size_t bytes = 0;
    for (size_t i = 1; i < slices.size(); ++i) {
      bytes += slices[i].size();
      if (PointsIntoTheBlocks(slices[i], f)) {
        EXPECT_GE(slices[i].size(), kMinKvSliceBytes);
      } else if (i + 1 < slices.size() && !PointsIntoTheBlocks(slices[i + 1], f)) {
        EXPECT_GT(slices[i].size(), kMinKvSliceBytes) << "what follows could have been in it";
      }
    }
    EXPECT_EQ(bytes, f.payload_bytes());
    EXPECT_EQ(Bytes(MakeKvBuffer(f.header, f.blocks, [] {})).substr(slices[0].size()),
              ExpectedPayload(f));
  }
}

TEST(KvBuffer, LayersOfOneBlockAreOneSlice) {
  Fixture f(64, 128);
  f.header.set_first_token(64);
  f.header.set_token_count(64);
  f.header.set_layer_count(3);
  EXPECT_EQ(SlicesOf(f).size(), 2u);
  f.header.set_token_count(128);  // K of two blocks, V of two blocks, three times
  EXPECT_EQ(SlicesOf(f).size(), 13u);
}

TEST(KvBuffer, ReleasesOnceWhenTheLastSliceIsGone) {
  Fixture f(32, 192);
  std::vector<grpc::Slice> slices;
  {
    const grpc::ByteBuffer buffer = MakeKvBuffer(f.header, f.blocks, [&f] { ++f.released; });
    ASSERT_TRUE(buffer.Dump(&slices).ok());
  }
  std::reverse(slices.begin(), slices.end());
  size_t pinned = 0;
  for (const grpc::Slice& slice : slices) pinned += PointsIntoTheBlocks(slice, f) ? 1 : 0;
  ASSERT_GT(pinned, 4u);
  while (pinned > 0) {
    EXPECT_EQ(f.released, 0);
    pinned -= PointsIntoTheBlocks(slices.back(), f) ? 1 : 0;
    slices.pop_back();
  }
  EXPECT_EQ(f.released, 1);
  slices.clear();
  EXPECT_EQ(f.released, 1);
}

TEST(KvBuffer, ReleasesAtOnceWhereEveryByteWasCopied) {
  Fixture f(16);
  const grpc::ByteBuffer buffer = MakeKvBuffer(f.header, f.blocks, [&f] { ++f.released; });
  EXPECT_EQ(f.released, 1);
}

TEST(KvBuffer, IsReadBackFromAnySlices) {
  Fixture f(16);
  const std::string bytes = Bytes(MakeKvBuffer(f.header, f.blocks, [] {}));
  for (size_t cut = 1; cut < bytes.size(); cut += 13) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size(); at += cut) {
      slices.emplace_back(bytes.data() + at, std::min(cut, bytes.size() - at));
    }
    ASSERT_TRUE(IsKvData(slices));
    const auto message = DecodeKvData(slices);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->header, f.header.SerializeAsString());
    std::string payload(message->payload_bytes, '\0');
    SliceReader reader(message->slices, message->payload_offset);
    ASSERT_TRUE(reader.Read(payload.data(), payload.size()));
    EXPECT_EQ(payload, ExpectedPayload(f));
  }
}

TEST(KvWire, RefusesEveryMessageThatIsCutShortOrTooLong) {
  Fixture f(16);
  const std::string bytes = Bytes(MakeKvBuffer(f.header, f.blocks, [] {}));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeKvData({grpc::Slice(bytes.data(), size)}).ok()) << size;
  }
  EXPECT_FALSE(DecodeKvData({grpc::Slice(bytes + "x")}).ok());
  EXPECT_FALSE(DecodeKvData({}).ok());
}

TEST(KvWire, RefusesSizesBeyondTheLimits) {
  EXPECT_TRUE(DecodeKvData({grpc::Slice(EncodeKvDataPrefix("h", 1, 100)),
                            grpc::Slice(std::string(100, 'p'))})
                  .ok());
  // A length of 2^28 - 1, of an over-long form, and a header of 49 KiB.
  EXPECT_FALSE(DecodeKvData({grpc::Slice(std::string("\x1A\xFF\xFF\xFF\x7F", 5))}).ok());
  EXPECT_FALSE(DecodeKvData({grpc::Slice(std::string("\x1A\x80\x80\x80\x80\x01", 6))}).ok());
  PushRequest large;
  large.mutable_data()->set_header_crc32c(1);
  large.mutable_data()->set_payload("p");
  for (int i = 0; i < 49 * 256; ++i) large.mutable_data()->mutable_header()->add_page_crc32c(i);
  EXPECT_FALSE(DecodeKvData({grpc::Slice(large.SerializeAsString())}).ok());
}

}  // namespace
}  // namespace baton
