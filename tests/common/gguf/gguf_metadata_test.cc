#include "common/gguf/gguf_metadata.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/gguf/gguf_file.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

TEST(GgufMetadata, EachKindOfValueIsReadBackAsItWasAdded) {
  GgufMetadata metadata;
  metadata.Text("a.text", "a\nb");
  metadata.Uint32("a.count", std::numeric_limits<uint32_t>::max());
  metadata.Float32("a.number", 0.1f);
  metadata.Bool("a.yes", true);
  metadata.Bool("a.no", false);
  metadata.Texts("a.texts", {"x", "", "yz"});
  metadata.Int32s("a.ints", {-7, 8});
  metadata.Bools("a.bools", {true, false, true});
  EXPECT_EQ(metadata.count(), 8u);
  const auto file = GgufFile::Parse(GgufHeader(metadata, 0), "made.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->GetString("a.text"), "a\nb");
  EXPECT_EQ(*file->GetUint("a.count"), std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(*file->GetFloat("a.number"), double{0.1f});
  EXPECT_TRUE(*file->GetBool("a.yes"));
  EXPECT_FALSE(*file->GetBool("a.no"));
  EXPECT_THAT(*file->GetStrings("a.texts"), ElementsAre("x", "", "yz"));
  EXPECT_THAT(*file->GetInts("a.ints"), ElementsAre(-7, 8));
  EXPECT_THAT(*file->GetBools("a.bools"), ElementsAre(true, false, true));
}

TEST(GgufMetadata, AHeaderIsTheBeginOfAFileWithSoManyTensors) {
  GgufMetadata metadata;
  metadata.Text("general.architecture", "llama");
  metadata.Int32s("ids", {1, 2});
  GgufBuilder builder;
  builder.Text("general.architecture", "llama").Int32s("ids", {1, 2});
  builder.tensor_count = 5;
  EXPECT_EQ(GgufHeader(metadata, 5), builder.Build());
}

TEST(GgufMetadata, AStringFollowsItsLength) {
  std::string out = "before";
  AppendGgufString(out, std::string("a\0b", 3));
  EXPECT_EQ(out, std::string("before\3\0\0\0\0\0\0\0a\0b", 17));
}

}  // namespace
}  // namespace baton
