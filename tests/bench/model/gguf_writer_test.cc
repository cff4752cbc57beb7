#include "bench/model/gguf_writer.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/gguf/gguf_file.h"

namespace baton {
namespace {

using FilePointer = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string ContentOf(std::FILE* file) {
  std::rewind(file);
  std::string content;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) content += static_cast<char>(c);
  return content;
}

TEST(GgufTensorEntry, HasTheBytesOfItsBlocks) {
  EXPECT_EQ((GgufTensorEntry{.name = "a", .type = GgmlType::kF32, .dims = {3, 5}}.size_bytes()),
            60u);
  EXPECT_EQ(
      (GgufTensorEntry{.name = "a", .type = GgmlType::kQ4_0, .dims = {64, 2, 3}}.size_bytes()),
      12u * 18);
  EXPECT_EQ((GgufTensorEntry{.name = "a", .type = GgmlType::kQ6_K, .dims = {256}}.size_bytes()),
            210u);
}

// Sizes that need padding between tensors, and one that needs none.
TEST(GgufWriter, WritesWhatTheReaderReads) {
  const FilePointer file(std::tmpfile(), &std::fclose);
  GgufMetadata metadata;
  metadata.Text("general.architecture", "llama");
  metadata.Uint32("number", 7);
  metadata.Float32("fraction", 0.25f);
  metadata.Texts("words", {"a", "", "ccc"});
  metadata.Int32s("integers", {-1, 2});
  EXPECT_EQ(metadata.count(), 5u);
  const std::vector<GgufTensorEntry> tensors = {
      {.name = "odd", .type = GgmlType::kF32, .dims = {3}},
      {.name = "blocks", .type = GgmlType::kQ8_0, .dims = {32, 2}},
      {.name = "even", .type = GgmlType::kF16, .dims = {16}}};
  GgufWriter writer(file.get(), "model");
  ASSERT_TRUE(writer.WriteHeader(metadata, tensors).ok());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<uint8_t> bytes(tensors[i].size_bytes(), static_cast<uint8_t>('a' + i));
    const absl::Span<const uint8_t> all = bytes;
    ASSERT_TRUE(writer.WriteData(all.first(5)).ok());  // in two pieces
    ASSERT_TRUE(writer.WriteData(all.subspan(5)).ok());
    ASSERT_TRUE(writer.EndTensor().ok());
  }
  const auto read = GgufFile::Parse(ContentOf(file.get()), "model");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read->GetString("general.architecture"), "llama");
  EXPECT_EQ(*read->GetUint("number"), 7u);
  EXPECT_EQ(*read->GetFloat("fraction"), 0.25f);
  EXPECT_TRUE(read->Has("words"));
  EXPECT_TRUE(read->Has("integers"));
  ASSERT_EQ(read->tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const GgufTensor& tensor = read->tensors()[i];
    EXPECT_EQ(tensor.name, tensors[i].name);
    EXPECT_EQ(tensor.type, tensors[i].type);
    EXPECT_EQ(tensor.dims, tensors[i].dims);
    EXPECT_EQ(tensor.data.size(), tensors[i].size_bytes());
    for (const uint8_t byte : tensor.data) ASSERT_EQ(byte, 'a' + i) << tensor.name;
  }
}

TEST(GgufWriter, AFullDiskIsAnErrorThatNamesTheFileAndTheRemedy) {
  const FilePointer file(std::fopen("/dev/full", "wb"), &std::fclose);
  ASSERT_NE(file, nullptr);
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  GgufWriter writer(file.get(), "m.gguf");
  const absl::Status status = writer.WriteHeader(GgufMetadata(), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(status.message(),
            "m.gguf: cannot be written (No space left on device); free space there or choose "
            "another path");
}

}  // namespace
}  // namespace baton
