#include "common/hugging_face/safetensors.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/safetensors_builder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Span<const uint8_t> Bytes(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

std::string FileError(const std::string& file) {
  const auto tensors = ParseSafetensors(Bytes(file), "m.safetensors");
  EXPECT_THAT(std::string(tensors.status().message()), StartsWith("m.safetensors: "));
  return std::string(tensors.status().message());
}

// The error of a file with eight bytes of data and one entry.
std::string EntryError(const std::string& entry) {
  return FileError(SafetensorsFile(absl::StrCat("{\"t\":", entry, "}"), "12345678"));
}

TEST(Safetensors, TensorsHaveTheirTypeShapeAndBytes) {
  SafetensorsBuilder builder;
  builder.Add("w", "BF16", {2, 3}, "aabbccddeeff").Add("a", "F8_E4M3", {1}, "x");
  builder.Add("one", "F32", {}, "1234").Add("i", "I64", {1}, "12345678");
  builder.entries.push_back(R"("__metadata__":{"format":"pt"})");
  const std::string file = builder.Build();
  const auto tensors = ParseSafetensors(Bytes(file), "m.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 4u);  // in the order of their names
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].type, SafeType::kF8E4m3);
  EXPECT_EQ((*tensors)[1].dtype, "I64");
  EXPECT_EQ((*tensors)[1].type, SafeType::kOther);
  EXPECT_EQ((*tensors)[2].elements(), 1u);
  const SafeTensor& w = (*tensors)[3];
  EXPECT_EQ(w.type, SafeType::kBf16);
  EXPECT_THAT(w.shape, ElementsAre(2, 3));
  EXPECT_EQ(std::string(w.data.begin(), w.data.end()), "aabbccddeeff");
}

TEST(Safetensors, HeadersThatAreNoneAreRefused) {
  EXPECT_THAT(FileError("1234567"),
              HasSubstr("is too short to hold the length of its header; the file is"));
  EXPECT_THAT(FileError(std::string(8, '\xff')),
              HasSubstr("states a header length of 18446744073709551615"));
  EXPECT_THAT(FileError(SafetensorsFile("{}", "").substr(0, 9)),
              HasSubstr("states a header length of 2"));
  EXPECT_THAT(FileError(SafetensorsFile(std::string((32u << 20) + 1, ' '), "")),
              HasSubstr("more than the rest of the file or the limit of 33554432"));
  EXPECT_THAT(FileError(SafetensorsFile("GGUF", "")), HasSubstr("is not JSON"));
  EXPECT_THAT(FileError(SafetensorsFile("[1]", "")), HasSubstr("is not a JSON object"));
  EXPECT_THAT(FileError(SafetensorsFile(R"({"a":{},"a":{}})", "")), HasSubstr("'a' appears twice"));
  EXPECT_THAT(FileError(SafetensorsFile(R"({"a":[[[[[1]]]]]})", "")), HasSubstr("nested deeper"));
}

TEST(Safetensors, EntriesThatAreNoneAreRefusedByName) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return EntryError(absl::StrCat("{\"dtype\":", dtype, ",\"shape\":", shape,
                                   ",\"data_offsets\":", offsets, "}"));
  };
  EXPECT_THAT(EntryError("1"), HasSubstr("tensor 't' has no dtype, shape or data_offsets"));
  EXPECT_THAT(EntryError("{}"), HasSubstr("tensor 't' has no dtype"));
  EXPECT_THAT(entry("1", "[2]", "[0,8]"), HasSubstr("has no dtype"));
  EXPECT_THAT(entry("\"F32\"", "2", "[0,8]"), HasSubstr("has no dtype"));
  EXPECT_THAT(entry("\"F31\"", "[2]", "[0,8]"), HasSubstr("dtype 'F31', which is not known"));
  EXPECT_THAT(entry("\"F32\"", "[1,1,1,1,2]", "[0,8]"), HasSubstr("has 5 dimensions, more than 4"));
  for (const char* shape : {"[0]", "[-2]", "[2.0]", "[\"2\"]", "[4294967296,4294967296]"}) {
    EXPECT_THAT(entry("\"F32\"", shape, "[0,8]"), HasSubstr("must have a shape of whole")) << shape;
  }
  for (const char* offsets : {"[0]", "[0,8,8]", "[8,0]", "[0,9]", "[-1,7]", "[0,\"8\"]",
                              "[0,18446744073709551615]", "[18446744073709551608,0]"}) {
    EXPECT_THAT(entry("\"F32\"", "[2]", offsets), HasSubstr("data_offsets outside the")) << offsets;
  }
  EXPECT_THAT(entry("\"F32\"", "[1]", "[0,8]"),
              HasSubstr("has 8 bytes, but its dtype and shape require 4"));
  EXPECT_THAT(FileError(SafetensorsFile(
                  absl::StrCat("{\"", std::string(257, 'n'),
                               R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
                  "12345678")),
              HasSubstr("has a name of 257 bytes"));
}

TEST(Safetensors, TensorsFillTheDataWithoutOverlapAndGap) {
  const auto error = [](int a, int b, const std::string& data) {
    return FileError(SafetensorsFile(
        absl::StrCat(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[)", a, ",", a + 4,
                     R"(]},"b":{"dtype":"F32","shape":[1],"data_offsets":[)", b, ",", b + 4, "]}}"),
        data));
  };
  EXPECT_THAT(error(0, 2, "123456"), HasSubstr("tensor 'b' overlaps the one before it"));
  EXPECT_THAT(error(4, 4, "12345678"), HasSubstr("begins after a gap"));
  EXPECT_THAT(error(0, 5, "123456789"), HasSubstr("tensor 'b' begins after a gap"));
  EXPECT_THAT(error(4, 0, "123456789"), HasSubstr("has bytes after its last tensor"));
}

// A random header gives what was put into it, and with a random byte of it changed an error or
// tensors that lie in the file.
TEST(Safetensors, RandomHeadersAreReadAsTheyWereMadeAndSurviveDamage) {
  std::mt19937 random(7);
  const auto below = [&random](uint32_t end) { return random() % end; };
  const std::map<std::string, uint64_t> dtypes = {{"F32", 4}, {"BF16", 2}, {"U8", 1}, {"I64", 8}};
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    SafetensorsBuilder builder;
    std::map<std::string, std::pair<std::vector<uint64_t>, std::string>> expected;
    for (uint32_t i = 0; i < 1 + below(8); ++i) {
      const std::string name = absl::StrCat("layer.", below(5), ".t", i);
      const auto dtype = std::next(dtypes.begin(), below(4));
      std::vector<uint64_t> shape(below(4));
      uint64_t size = dtype->second;
      for (uint64_t& length : shape) size *= length = 1 + below(4);
      std::string bytes(size, '\0');
      for (char& byte : bytes) byte = static_cast<char>(below(256));
      builder.Add(name, dtype->first, shape, bytes);
      expected[name] = {shape, bytes};
    }
    std::string file = builder.Build();
    const auto tensors = ParseSafetensors(Bytes(file), "m");
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_EQ(tensors->size(), expected.size());
    for (const SafeTensor& tensor : *tensors) {
      EXPECT_EQ(tensor.shape, expected[tensor.name].first);
      EXPECT_EQ(std::string(tensor.data.begin(), tensor.data.end()), expected[tensor.name].second);
    }
    for (int damage = 0; damage < 20; ++damage) {
      std::string damaged = file;
      damaged[below(static_cast<uint32_t>(file.size() - builder.data.size()))] =
          static_cast<char>(below(256));
      const auto read = ParseSafetensors(Bytes(damaged), "m");
      refused += read.ok() ? 0 : 1;
      if (!read.ok()) continue;
      for (const SafeTensor& tensor : *read) {
        EXPECT_GE(tensor.data.data(), Bytes(damaged).data());
        EXPECT_LE(tensor.data.data() + tensor.data.size(), Bytes(damaged).end());
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace baton
