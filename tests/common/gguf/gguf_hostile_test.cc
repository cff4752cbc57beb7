// Tests of hostile files. Each must end in an error that names the file and what is wrong, and must
// take little memory.
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/gguf/gguf_file.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/gguf_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace baton {
namespace {

using Part = GgufFile::Part;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kHuge[] = {
    uint64_t{1} << 31,       uint64_t{1} << 32, uint64_t{1} << 40, uint64_t{1} << 61,
    (uint64_t{1} << 61) + 1, uint64_t{1} << 62, uint64_t{1} << 63, (uint64_t{1} << 63) - 1,
    UINT64_MAX - 31,         UINT64_MAX - 7,    UINT64_MAX};
constexpr size_t kSmallMemory = 16 * 1024;  // bytes for a file of a few hundred bytes and its error

std::string ReadTiny(const std::string& name) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/tiny/" + name, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

// Parses a file and expects an error about `what`, and that the parsing took little memory.
void ExpectRefused(std::string bytes, const std::string& what, Part part = Part::kAll) {
  SCOPED_TRACE(what);
  const std::string name = "bad.gguf";
  const size_t before = AllocatedBytes();
  const absl::Status status = GgufFile::Parse(std::move(bytes), name, part).status();
  const size_t cost = AllocatedBytes() - before;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("bad.gguf: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  EXPECT_THAT(std::string(status.message()), HasSubstr("; "));  // the remedy follows
  EXPECT_LE(cost, kSmallMemory);
}

GgufBuilder OneTensor(GgufBuilder::TensorEntry tensor, size_t data_bytes = 4096) {
  GgufBuilder builder;
  builder.Tensor(std::move(tensor));
  builder.data = std::string(data_bytes, 'd');
  return builder;
}

TEST(GgufHostile, TheBuilderItselfMakesGoodFiles) {
  const GgufBuilder builder = OneTensor({.name = "a", .dims = {32, 4, 2, 4}});
  EXPECT_TRUE(GgufFile::Parse(builder.Build(), "good.gguf").ok());
}

TEST(GgufHostile, HeadersThatAreNotOurs) {
  ExpectRefused("", "is empty");
  ExpectRefused("GG", "ends inside its header");
  ExpectRefused("GGUF", "ends inside its header");
  ExpectRefused("GGML", "is not a GGUF file");
  ExpectRefused("PK\x03\x04 some other file", "is not a GGUF file");
  GgufBuilder builder;
  builder.magic = "FUGG";
  ExpectRefused(builder.Build(), "is not a GGUF file");
  builder.magic = "GGUF";
  builder.version = 1;
  ExpectRefused(builder.Build(), "GGUF version 1 is not supported");
  builder.version = 0;
  ExpectRefused(builder.Build(), "GGUF version 0 is not supported");
  builder.version = 4;
  ExpectRefused(builder.Build(), "GGUF version 4 is not supported");
  builder.version = 0x03000000;
  ExpectRefused(builder.Build(), "is a big-endian GGUF file");
  builder.version = 3;
  ExpectRefused(builder.Build().substr(0, 20), "ends inside its header");
}

TEST(GgufHostile, EveryHugeCountIsRefusedCheaply) {
  for (const uint64_t huge : kHuge) {
    SCOPED_TRACE(huge);
    GgufBuilder keys;
    keys.key_count = huge;
    ExpectRefused(keys.Build(), "metadata keys, more than");
    ExpectRefused(keys.Build(), "metadata keys, more than", Part::kTokenizer);
    GgufBuilder tensors;
    tensors.tensor_count = huge;
    ExpectRefused(tensors.Build(), "tensors, more than");

    const std::string more(64, 'x');
    GgufBuilder key_length;
    key_length.entries.push_back(GgufBytes().U64(huge).Raw(more).str());
    ExpectRefused(key_length.Build(), "ends inside metadata key 1 of 1");
    ExpectRefused(GgufBuilder().Key("k", 8, GgufBytes().U64(huge).Raw(more).str()).Build(),
                  "metadata key 'k': the file ends inside string 1 of 1");
    for (uint32_t type = 0; type <= 12; ++type) {
      if (type == 9) continue;
      const std::string payload = GgufBytes().U32(type).U64(huge).Raw(more).str();
      ExpectRefused(GgufBuilder().Key("k", 9, payload).Build(), "metadata key 'k'");
    }
    GgufBuilder name_length = OneTensor({.name = "a", .dims = {32}});
    std::string bytes = name_length.Build();
    bytes.replace(24, 8, GgufBytes().U64(huge).str());
    ExpectRefused(bytes, "ends inside the name of tensor 1 of 1");
    ExpectRefused(OneTensor({.name = "a", .dims = {huge & ~uint64_t{31}}}).Build(), "tensor 'a'");
    ExpectRefused(OneTensor({.name = "a", .dims = {32, huge}}).Build(), "tensor 'a'");
    ExpectRefused(OneTensor({.name = "a", .dims = {32, huge, huge, huge}}).Build(), "tensor 'a'");
    ExpectRefused(OneTensor({.name = "a", .dims = {32}, .offset = huge & ~uint64_t{31}}).Build(),
                  "beyond the end of the file");
  }
}

TEST(GgufHostile, CountsBeyondTheFileButWithinTheLimitsAreRefused) {
  GgufBuilder keys = GgufBuilder().Scalar<uint32_t>("k", 4, 1);
  keys.key_count = 2;
  ExpectRefused(keys.Build(), "ends inside metadata key 2 of 2");
  keys.key_count = 65536;
  ExpectRefused(keys.Build(), "ends inside metadata key 2 of 65536");
  GgufBuilder tensors = OneTensor({.name = "a", .dims = {32}}, 0);
  tensors.tensor_count = 65536;
  ExpectRefused(tensors.Build(), "tensor 2");
}

TEST(GgufHostile, MetadataThatBreaksTheRules) {
  ExpectRefused(GgufBuilder().Scalar<uint32_t>("", 4, 1).Build(), "metadata key 1 is 0 bytes long");
  ExpectRefused(GgufBuilder().Key("k", 13, std::string(64, 'x')).Build(), "unknown type 13");
  ExpectRefused(GgufBuilder().Key("k", UINT32_MAX, std::string(64, 'x')).Build(), "unknown type");
  ExpectRefused(GgufBuilder().Key("k", 9, GgufBytes().U32(13).U64(1).U64(0).str()).Build(),
                "unknown type 13");
  ExpectRefused(GgufBuilder().Key("k", 9, GgufBytes().U32(9).U64(1).U64(0).str()).Build(),
                "array of arrays");
  ExpectRefused(GgufBuilder().Key("k", 9, "").Build(), "array without elements");
  ExpectRefused(GgufBuilder().Key("k", 9, GgufBytes().U32(4).Raw("1234567").str()).Build(),
                "array without elements");
  ExpectRefused(GgufBuilder().Key("k", 4, "123").Build(), "more than the file contains");
  ExpectRefused(GgufBuilder().Scalar<uint8_t>("k", 7, 2).Build(), "is a bool of value 2");
  ExpectRefused(GgufBuilder().Array<uint8_t>("k", 7, {0, 1, 255}).Build(),
                "is a bool of value 255");
  ExpectRefused(GgufBuilder().Scalar<uint32_t>("k", 4, 1).Text("k", "again").Build(),
                "metadata key 'k' appears twice");
  const std::string three_of_four =
      GgufBytes().U32(8).U64(4).String("a").String("b").String("c").str();
  ExpectRefused(GgufBuilder().Key("k", 9, three_of_four).Build(), "ends inside string 4 of 4");
  ExpectRefused(GgufBuilder().Scalar<uint16_t>("split.count", 2, 3).Build(), "llama-gguf-split");
}

TEST(GgufHostile, KeysBeyondTheLengthLimitAreRefused) {
  const auto with_key = [](size_t length) {
    return GgufBuilder().Scalar<uint32_t>(std::string(length, 'k'), 4, 1).Build();
  };
  EXPECT_TRUE(GgufFile::Parse(with_key(65535), "good.gguf").ok());
  ExpectRefused(with_key(65536), "metadata key 1 is 65536 bytes long");
}

TEST(GgufHostile, AlignmentsThatBreakTheRules) {
  const auto aligned = [](uint32_t alignment) {
    GgufBuilder builder = OneTensor({.name = "a", .dims = {32}}, 8192);
    return builder.Scalar<uint32_t>("general.alignment", 4, alignment).Build();
  };
  for (const uint32_t good : {8u, 16u, 32u, 64u, 4096u}) {
    EXPECT_TRUE(GgufFile::Parse(aligned(good), "good.gguf").ok()) << good;
  }
  for (const uint32_t bad : {0u, 1u, 2u, 3u, 4u, 7u, 12u, 33u, 8192u, 0x80000000u, 0xffffffffu}) {
    ExpectRefused(aligned(bad), "general.alignment is not a power of two");
  }
  GgufBuilder builder = OneTensor({.name = "a", .dims = {32}});
  ExpectRefused(builder.Text("general.alignment", "32").Build(), "general.alignment is of type");
  builder.entries.clear();
  ExpectRefused(builder.Scalar<int32_t>("general.alignment", 5, -32).Build(), "power of two");
  builder.entries.clear();
  ExpectRefused(builder.Array<uint32_t>("general.alignment", 4, {}).Build(), "of type array");
}

TEST(GgufHostile, TensorShapesThatBreakTheRules) {
  const std::vector<uint64_t> five = {32, 1, 1, 1, 1};
  ExpectRefused(OneTensor({.name = "a", .dims = {}}).Build(), "has 0 dimensions");
  ExpectRefused(OneTensor({.name = "a", .dims = five}).Build(), "has 5 dimensions");
  ExpectRefused(OneTensor({.name = "a", .dims = {32}, .dimension_count = UINT32_MAX}).Build(),
                "has 4294967295 dimensions");
  ExpectRefused(OneTensor({.name = "a", .dims = {0}}).Build(), "has a dimension of 0");
  ExpectRefused(OneTensor({.name = "a", .dims = {32, 0}}).Build(), "has a dimension of 0");
  ExpectRefused(OneTensor({.name = "a", .dims = {33}, .type = 2}).Build(),
                "has rows of 33 values, not a multiple of Q4_0's block of 32");
  ExpectRefused(OneTensor({.name = "a", .dims = {64}, .type = 12}).Build(), "Q4_K's block of 256");
  // Products that overflow and become small.
  const uint64_t two_32 = uint64_t{1} << 32;
  ExpectRefused(OneTensor({.name = "a", .dims = {two_32, two_32}}).Build(), "does not fit in 64");
  ExpectRefused(OneTensor({.name = "a", .dims = {two_32, 1, two_32, 1}}).Build(), "not fit in 64");
  ExpectRefused(OneTensor({.name = "a", .dims = {uint64_t{1} << 62}}).Build(), "not fit in 64");
  ExpectRefused(
      OneTensor({.name = "a", .dims = {uint64_t{1} << 16, two_32 >> 1, uint64_t{1} << 15}}).Build(),
      "does not fit in 64");
}

TEST(GgufHostile, TensorTypesThatNobodyKnowsAreRefusedByNumberWithWhatIsSupported) {
  for (const uint32_t type : {4u, 5u, 31u, 38u, 99u, 0x80000000u, UINT32_MAX}) {
    const std::string bytes = OneTensor({.name = "blk.0.w", .dims = {256}, .type = type}).Build();
    ExpectRefused(bytes, "tensor 'blk.0.w' has tensor type number " + std::to_string(type));
    ExpectRefused(bytes, "F32, F16, BF16, Q8_0, Q4_0 or Q4_1");
  }
}

TEST(GgufHostile, TensorNamesThatBreakTheRules) {
  EXPECT_TRUE(
      GgufFile::Parse(OneTensor({.name = std::string(64, 'n'), .dims = {32}}).Build(), "g").ok());
  ExpectRefused(OneTensor({.name = std::string(65, 'n'), .dims = {32}}).Build(), "65 bytes long");
  ExpectRefused(OneTensor({.name = "", .dims = {32}}).Build(), "0 bytes long");
  ExpectRefused(OneTensor({.name = "a\n\"b", .dims = {0}}).Build(), "tensor 'a\\u000a\\u0022b'");
  GgufBuilder twice = OneTensor({.name = "a", .dims = {32}});
  twice.Tensor({.name = "a", .dims = {32}, .offset = 128});
  ExpectRefused(twice.Build(), "tensor 'a' appears twice");
}

TEST(GgufHostile, TensorPlacesThatBreakTheRules) {
  ExpectRefused(OneTensor({.name = "a", .dims = {32}, .offset = 1}).Build(), "not a multiple");
  ExpectRefused(OneTensor({.name = "a", .dims = {32}, .offset = 16}).Build(), "not a multiple");
  EXPECT_TRUE(GgufFile::Parse(OneTensor({.name = "a", .dims = {1024}}).Build(), "g").ok());
  ExpectRefused(OneTensor({.name = "a", .dims = {1025}}).Build(), "beyond the end of the file");
  ExpectRefused(OneTensor({.name = "a", .dims = {32}, .offset = 4096}).Build(), "beyond the end");
  ExpectRefused(OneTensor({.name = "a", .dims = {1024}}, 4095).Build(), "beyond the end");
  ExpectRefused(OneTensor({.name = "a", .dims = {8}}, 0).Build(), "beyond the end of the file");
  ExpectRefused(OneTensor({.name = "a", .dims = {1024}, .offset = UINT64_MAX - 4095}).Build(),
                "beyond the end");
  GgufBuilder overlapping = OneTensor({.name = "b", .dims = {32}, .offset = 96});
  overlapping.Tensor({.name = "a", .dims = {32}, .offset = 0});
  ExpectRefused(overlapping.Build(), "tensors 'a' and 'b' overlap");
  overlapping.tensors[0].offset = 128;
  EXPECT_TRUE(GgufFile::Parse(overlapping.Build(), "good.gguf").ok());
  overlapping.tensors[0].offset = 0;
  ExpectRefused(overlapping.Build(), "overlap");
}

TEST(GgufHostile, AFileCutAnywhereIsRefusedAndTheTokenizerNeedsOnlyTheMetadata) {
  const std::string whole = ReadTiny("tiny-llama-f32.gguf");
  const auto full = GgufFile::Parse(whole, "whole.gguf", Part::kTokenizer);
  ASSERT_TRUE(full.ok()) << full.status();
  const std::string digest = full->TokenizerDigest();
  bool complete = false;
  for (size_t size = 0; size < 65536; ++size) {
    ASSERT_FALSE(GgufFile::Parse(whole.substr(0, size), "cut.gguf").ok()) << size;
    const auto cut = GgufFile::Parse(whole.substr(0, size), "cut.gguf", Part::kTokenizer);
    ASSERT_TRUE(cut.ok() || !complete) << size << ": " << cut.status();
    if (cut.ok() && !complete) {
      complete = true;
      ASSERT_EQ(cut->TokenizerDigest(), digest);
      ASSERT_EQ(cut->GetStrings("tokenizer.ggml.tokens")->size(), 320u);
    }
  }
  EXPECT_TRUE(complete);
}

TEST(GgufHostile, SurvivesTenThousandDamagedFiles) {
  const std::string whole = ReadTiny("tiny-llama-q4_0.gguf");
  const auto file = GgufFile::Parse(whole, "whole.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  size_t tensor_bytes = 0;
  for (const GgufTensor& tensor : file->tensors()) tensor_bytes += tensor.data.size();
  const size_t header_bytes = whole.size() - tensor_bytes;  // about all that the reader interprets
  int still_good = 0;
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    std::string damaged = whole;
    const uint32_t changes = 1 + random() % 4;
    for (uint32_t i = 0; i < changes; ++i) {
      // Half of the changes are near the start, where counts and types are.
      const size_t range = random() % 2 == 0 ? header_bytes : 1024;
      damaged[random() % range] = static_cast<char>(random());
    }
    const size_t before = AllocatedBytes();
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(damaged.data()), damaged.size());
    // This allows three copies of the file, and the views and numbers of eight bytes that the
    // getters decode from it.
    ASSERT_LE(AllocatedBytes() - before, 16 * whole.size()) << "seed " << seed;
    if (GgufFile::Parse(std::move(damaged), "damaged.gguf").ok()) ++still_good;
  }
  // Both outcomes must be frequent; otherwise the damage was to the wrong bytes.
  EXPECT_GT(still_good, 1000);
  EXPECT_LT(still_good, 9000);
}

}  // namespace
}  // namespace baton
