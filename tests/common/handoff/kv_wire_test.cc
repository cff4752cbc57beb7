#include "common/handoff/kv_wire.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "baton/internal/v1/kv_transfer.pb.h"

namespace baton {
namespace {

using internal::v1::PushRequest;

// The message in slices of `size` bytes.
std::vector<grpc::Slice> InSlices(const std::string& message, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < message.size(); at += size)
    slices.emplace_back(message.substr(at, size));
  return slices;
}

std::string Message(const std::string& header, uint32_t crc, const std::string& payload) {
  return EncodeKvDataPrefix(header, crc, payload.size()) + payload;
}

std::string ErrorOf(const std::string& message) {
  return std::string(DecodeKvData(InSlices(message, 7)).status().message());
}

// A message as protobuf makes it, whose header has so many CRCs of pages.
PushRequest RequestOf(int pages, size_t payload_bytes) {
  PushRequest request;
  auto& data = *request.mutable_data();
  for (int i = 0; i < pages; ++i)
    data.mutable_header()->add_page_crc32c(0x01020304u * static_cast<uint32_t>(i));
  data.set_header_crc32c(0x81828384u);
  data.set_payload(std::string(payload_bytes, 'p'));
  return request;
}

// Sizes on both sides of those where a length takes one more byte.
TEST(KvWire, IsWhatProtobufWritesForEverySize) {
  for (const int pages : {1, 30, 32, 4090, 4100, 12000}) {
    for (const size_t payload_bytes :
         {size_t{1}, size_t{127}, size_t{128}, size_t{16384}, size_t{1} << 21}) {
      const PushRequest request = RequestOf(pages, payload_bytes);
      EXPECT_TRUE(Message(request.data().header().SerializeAsString(), 0x81828384u,
                          request.data().payload()) == request.SerializeAsString())
          << pages << " pages and " << payload_bytes << " bytes";
    }
  }
}

TEST(KvWire, IsReadBackHoweverItIsCutIntoSlices) {
  const std::string message = Message("header", 0xfffefdfcu, "payload");
  for (size_t size = 1; size <= message.size(); ++size) {
    const auto decoded = DecodeKvData(InSlices(message, size));
    ASSERT_TRUE(decoded.ok()) << size << ": " << decoded.status();
    EXPECT_EQ(decoded->header, "header");
    EXPECT_EQ(decoded->header_crc32c, 0xfffefdfcu);
    EXPECT_EQ(decoded->payload_bytes, 7u);
    std::string payload(7, '\0');
    SliceReader reader(decoded->slices, decoded->payload_offset);
    ASSERT_TRUE(reader.Read(payload.data(), 7));
    EXPECT_EQ(payload, "payload");
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

TEST(KvWire, RefusesEveryPrefixOfAMessageAndEveryByteTooMuch) {
  const std::string message = Message("header", 1, "payload");
  for (size_t size = 0; size < message.size(); ++size)
    EXPECT_NE(ErrorOf(message.substr(0, size)), "") << size;
  EXPECT_NE(ErrorOf(message + "x"), "");
}

TEST(KvWire, RefusesEveryTagButItsOwnAndALengthThatIsNotTheShortest) {
  const std::string message = Message("hh", 1, "pp");
  // data, its length, header, its length, "hh", crc, four bytes, payload, its length, "pp"
  for (const size_t tag : {0, 2, 6, 11}) {
    std::string wrong = message;
    wrong[tag] = static_cast<char>(wrong[tag] ^ 8);
    EXPECT_NE(ErrorOf(wrong), "") << tag;
  }
  std::string longer = message;
  longer.replace(3, 1, std::string("\x82\x00", 2));  // 2 in two bytes
  longer[1] = static_cast<char>(longer[1] + 1);
  EXPECT_EQ(ErrorOf(longer), "KvData message: no header");
}

TEST(KvWire, RefusesAHeaderOrAPayloadThatIsEmptyOrTooLarge) {
  constexpr int kMostPages = 12287;
  const auto error = [](const PushRequest& request) {
    return std::string(DecodeKvData({grpc::Slice(request.SerializeAsString())}).status().message());
  };
  PushRequest most = RequestOf(kMostPages, kMaxKvPayloadBytes);
  ASSERT_EQ(most.data().header().ByteSizeLong(), kMaxKvHeaderBytes);
  EXPECT_EQ(error(most), "");
  most.mutable_data()->mutable_header()->set_sequence_number(1);
  EXPECT_EQ(error(most), "KvData message: header size out of range");
  EXPECT_EQ(error(RequestOf(1, kMaxKvPayloadBytes + 1)),
            "KvData message: payload size out of range");
  EXPECT_NE(error(RequestOf(1, 0)), "");
  PushRequest empty = RequestOf(1, 1);
  empty.mutable_data()->mutable_header()->Clear();
  EXPECT_EQ(error(empty), "KvData message: header size out of range");
}

TEST(KvWire, TellsItsMessagesFromAllOthers) {
  EXPECT_TRUE(IsKvData(InSlices(Message("h", 1, "p"), 1)));
  PushRequest open;
  open.mutable_open();
  PushRequest commit;
  commit.mutable_commit();
  EXPECT_FALSE(IsKvData(InSlices(open.SerializeAsString(), 1)));
  EXPECT_FALSE(IsKvData(InSlices(commit.SerializeAsString(), 1)));
  EXPECT_FALSE(IsKvData({}));
}

TEST(KvWire, ABufferWithoutBytesIsAnErrorAndItsSlicesAreNotCopied) {
  EXPECT_FALSE(SlicesOf(grpc::ByteBuffer()).ok());
  const grpc::Slice empty;
  EXPECT_FALSE(SlicesOf(grpc::ByteBuffer(&empty, 1)).ok());
  const grpc::Slice large(std::string(1000, 'x'));  // a small one lies in the slice itself
  const auto slices = SlicesOf(grpc::ByteBuffer(&large, 1));
  ASSERT_TRUE(slices.ok());
  ASSERT_EQ(slices->size(), 1u);
  EXPECT_EQ((*slices)[0].begin(), large.begin());
}

TEST(SliceReader, ReadsAndSkipsAcrossBordersAndEmptySlices) {
  std::vector<grpc::Slice> slices = {grpc::Slice("abc"), grpc::Slice(), grpc::Slice("de"),
                                     grpc::Slice("f")};
  SliceReader reader(slices, 1);
  EXPECT_EQ(reader.remaining(), 5u);
  char two[2];
  ASSERT_TRUE(reader.Read(two, 2));
  EXPECT_EQ(std::string(two, 2), "bc");
  ASSERT_TRUE(reader.Skip(1));
  ASSERT_TRUE(reader.Read(two, 2));
  EXPECT_EQ(std::string(two, 2), "ef");
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_TRUE(reader.Skip(0));
}

TEST(SliceReader, ShowsWhatLiesInOneSliceWithoutReadingIt) {
  const std::vector<grpc::Slice> slices = {grpc::Slice(), grpc::Slice("abc"), grpc::Slice(),
                                           grpc::Slice("de")};
  const auto text = [](absl::Span<const uint8_t> run) {
    return std::string(reinterpret_cast<const char*>(run.data()), run.size());
  };
  SliceReader reader(slices, 0);
  EXPECT_EQ(text(reader.Run()), "abc");
  EXPECT_EQ(reader.Run().data(), slices[1].begin()) << "not copied";
  ASSERT_TRUE(reader.Skip(1));
  EXPECT_EQ(text(reader.Run()), "bc");
  ASSERT_TRUE(reader.Skip(2));
  EXPECT_EQ(text(reader.Run()), "de");
  ASSERT_TRUE(reader.Skip(2));
  EXPECT_TRUE(reader.Run().empty());
}

TEST(SliceReader, StaysWhereItIsWhenTooFewBytesRemain) {
  const std::vector<grpc::Slice> slices = {grpc::Slice("ab"), grpc::Slice("c")};
  SliceReader reader(slices, 1);
  char bytes[3];
  EXPECT_FALSE(reader.Read(bytes, 3));
  EXPECT_FALSE(reader.Skip(3));
  EXPECT_EQ(reader.remaining(), 2u);
  ASSERT_TRUE(reader.Read(bytes, 2));
  EXPECT_EQ(std::string(bytes, 2), "bc");
}

}  // namespace
}  // namespace baton
