#include "common/gguf/gguf_contents.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using Part = GgufFile::Part;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string ErrorOf(const GgufBuilder& builder, Part part = Part::kAll) {
  const std::string file = builder.Build();
  return std::string(ParseGguf(Bytes(file), "m.gguf", part).status().message());
}

// Two matrices of 8 floats and one vector of 8.
GgufBuilder ThreeTensors() {
  GgufBuilder builder;
  builder.TensorWithData("b", {8, 2}, 0, std::string(64, 'b'));
  builder.TensorWithData("a", {8}, 0, std::string(32, 'a'));
  builder.TensorWithData("c", {4, 2, 1}, 0, std::string(32, 'c'));
  return builder;
}

TEST(GgufContents, TensorsKeepTheFilesOrderAndAreFoundByName) {
  const std::string file = ThreeTensors().Build();
  const auto contents = ParseGguf(Bytes(file), "m.gguf", Part::kAll);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->tensors.size(), 3u);
  for (const auto& [name, index] : contents->tensor_index)
    EXPECT_EQ(contents->tensors[index].name, name);
  EXPECT_EQ(contents->tensors[0].name, "b");
  EXPECT_EQ(contents->tensors[2].dims, (std::vector<uint64_t>{4, 2, 1}));
  for (const GgufTensor& tensor : contents->tensors) {
    for (const uint8_t byte : tensor.data) ASSERT_EQ(byte, tensor.name[0]);
  }
}

TEST(GgufContents, ViewsPointIntoTheBytesThatWereParsed) {
  const std::string file = ThreeTensors().Text("key", "text").Build();
  const auto contents = ParseGguf(Bytes(file), "m.gguf", Part::kAll);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const auto lies_inside = [&](const void* begin, size_t size) {
    const char* first = static_cast<const char*>(begin);
    return first >= file.data() && first + size <= file.data() + file.size();
  };
  const auto& [key, value] = *contents->metadata.begin();
  EXPECT_TRUE(lies_inside(key.data(), key.size()));
  EXPECT_TRUE(lies_inside(value.payload.data(), value.payload.size()));
  EXPECT_EQ(value.payload.size(), 8u + 4u);  // a length and the text
  for (const GgufTensor& tensor : contents->tensors)
    EXPECT_TRUE(lies_inside(tensor.data.data(), tensor.data.size()));
}

TEST(GgufContents, TheDataBeginsAtTheNextMultipleOfTheAlignmentThatTheFileNames) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    GgufBuilder builder;
    builder.Uint32("general.alignment", alignment).Tensor({.name = "t", .dims = {2}});
    builder.alignment = alignment;
    builder.data = "12345678";
    const std::string file = builder.Build();
    const auto contents = ParseGguf(Bytes(file), "m.gguf", Part::kAll);
    ASSERT_TRUE(contents.ok()) << contents.status();
    const auto offset = contents->tensors[0].data.data() - Bytes(file).data();
    EXPECT_EQ(offset % alignment, 0) << alignment;
    EXPECT_EQ(contents->tensors[0].data[0], '1') << alignment;
  }
}

TEST(GgufContents, TensorsMayTouchAndLieInAnyOrderButNotOverlap) {
  GgufBuilder builder;
  builder.data = std::string(64, 'x');
  builder.Tensor({.name = "second", .dims = {8}, .offset = 32})
      .Tensor({.name = "first", .dims = {8}, .offset = 0});
  EXPECT_EQ(ErrorOf(builder), "");
  builder.tensors[1].dims = {9};
  EXPECT_EQ(ErrorOf(builder),
            "m.gguf: tensors 'first' and 'second' overlap; the file is cut off or damaged, fetch "
            "it again");
}

TEST(GgufContents, TheLastTensorMayEndWithTheFileAndNotBehindIt) {
  GgufBuilder builder;
  builder.Tensor({.name = "t", .dims = {8}});
  builder.data = std::string(32, 'x');
  EXPECT_EQ(ErrorOf(builder), "");
  builder.data.pop_back();
  EXPECT_NE(ErrorOf(builder).find("beyond the end of the file"), std::string::npos);
}

TEST(GgufContents, TheTokenizersPartTakesNoTensors) {
  GgufBuilder builder;
  builder.Text("k", "v");
  builder.tensor_count = 99;  // none of them is there
  const std::string file = builder.Build();
  const auto contents = ParseGguf(Bytes(file), "m.gguf", Part::kTokenizer);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_TRUE(contents->tensors.empty());
  EXPECT_EQ(contents->metadata.size(), 1u);
  EXPECT_NE(ErrorOf(builder), "");
}

TEST(GgufContents, ABoolIsZeroOrOneAlsoInAnArray) {
  EXPECT_EQ(ErrorOf(GgufBuilder().Array<uint8_t>("k", 7, {0, 1, 1})), "");
  EXPECT_EQ(ErrorOf(GgufBuilder().Array<uint8_t>("k", 7, {0, 1, 2})),
            "m.gguf: metadata key 'k' is a bool of value 2; the file is cut off or damaged, fetch "
            "it again");
}

TEST(GgufContents, AnArrayKnowsItsElementsAndMayBeEmpty) {
  const std::string file =
      GgufBuilder().Int32s("some", {1, 2, 3}).Int32s("none", {}).Texts("texts", {"a", ""}).Build();
  const auto contents = ParseGguf(Bytes(file), "m.gguf", Part::kAll);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const GgufValue& some = contents->metadata.at("some");
  EXPECT_TRUE(some.is_array);
  EXPECT_EQ(some.count, 3u);
  EXPECT_EQ(some.payload.size(), 12u);
  EXPECT_TRUE(IntegerAt(some, 2) == 3);
  EXPECT_EQ(contents->metadata.at("none").count, 0u);
  EXPECT_EQ(contents->metadata.at("texts").payload.size(), 8u + 1u + 8u);
}

}  // namespace
}  // namespace baton
