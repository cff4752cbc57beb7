#include "common/model/model_keys.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

constexpr uint32_t kGgufFloat32 = 6;

class ModelKeysTest : public ::testing::Test {
 protected:
  static GgufFile MakeFile() {
    GgufBuilder builder;
    builder.Uint32("a.count", 7).Uint32("a.zero", 0).Uint32("b.count", 9);
    builder.Scalar("a.number", kGgufFloat32, 0.5f).Scalar("a.negative", kGgufFloat32, -1.0f);
    builder.Scalar("a.none", kGgufFloat32, 0.0f);
    builder.Scalar("a.infinite", kGgufFloat32, std::numeric_limits<float>::infinity());
    builder.Text("a.text", "t");
    return *GgufFile::Parse(builder.Build(), "m.gguf");
  }
  template <typename Result>
  static std::string Error(const Result& result) {
    return std::string(result.status().message());
  }

  const GgufFile file_ = MakeFile();
  const ModelKeys keys_{file_, "a"};
};

TEST_F(ModelKeysTest, AreThoseOfTheArchitecture) {
  EXPECT_EQ(keys_.Key("count"), "a.count");
  EXPECT_TRUE(keys_.Has("count"));
  EXPECT_FALSE(keys_.Has("b.count"));
  EXPECT_EQ(*ModelKeys(file_, "b").Count("count", 10), 9);
  EXPECT_EQ(*keys_.StringOr("text", "u"), "t");
  EXPECT_EQ(*keys_.StringOr("other", "u"), "u");
}

TEST_F(ModelKeysTest, ACountIsInItsRange) {
  EXPECT_EQ(*keys_.Count("count", 7), 7);
  EXPECT_EQ(Error(keys_.Count("count", 6)), "m.gguf: a.count is 7; must be 1 to 6");
  EXPECT_EQ(Error(keys_.Count("zero", 6)), "m.gguf: a.zero is 0; must be 1 to 6");
  EXPECT_EQ(keys_.Count("missing", 6).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*keys_.CountOr("missing", 6, 4), 4);
  EXPECT_FALSE(keys_.CountOr("count", 6, 4).ok());
  EXPECT_EQ(*keys_.CountOrNone("missing", 6), 0);
  EXPECT_EQ(*keys_.CountOrNone("zero", 6), 0);
  EXPECT_EQ(*keys_.CountOrNone("count", 7), 7);
  EXPECT_FALSE(keys_.CountOrNone("count", 6).ok());
}

TEST_F(ModelKeysTest, AnArrayOfEqualValuesIsOneCount) {
  GgufBuilder builder;
  builder.Uint32("a.block_count", 3).Int32s("a.equal", {7, 7, 7}).Int32s("a.zeros", {0, 0, 0});
  builder.Int32s("a.differ", {7, 7, 8}).Int32s("a.short", {7, 7}).Int32s("a.below", {-1, -1, -1});
  builder.Array<uint8_t>("a.narrow", 0, {9, 9, 9});
  const GgufFile file = *GgufFile::Parse(builder.Build(), "m.gguf");
  const ModelKeys keys(file, "a");
  EXPECT_EQ(*keys.Count("equal", 7), 7);
  EXPECT_EQ(*keys.CountOr("equal", 7, 1), 7);
  EXPECT_EQ(*keys.CountOrNone("equal", 7), 7);
  EXPECT_EQ(*keys.Count("narrow", 10), 9);
  EXPECT_EQ(*keys.CountOrNone("zeros", 7), 0);
  EXPECT_TRUE(keys.IsNone("zeros"));
  EXPECT_FALSE(keys.IsNone("equal"));
  EXPECT_EQ(Error(keys.Count("equal", 6)), "m.gguf: a.equal is 7; must be 1 to 6");
  EXPECT_EQ(Error(keys.Count("short", 7)), "m.gguf: a.short has 2 values; there are 3 layers");
  EXPECT_EQ(Error(keys.Count("below", 7)), "m.gguf: a.below is -1 in each layer; it is a count");
  EXPECT_EQ(keys.Count("differ", 9).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(Error(keys.Count("differ", 9))
                .find("a.differ differs among layers: it is 7 in layer 0 "
                      "and 8 in layer 2"),
            std::string::npos);
}

TEST_F(ModelKeysTest, ANumberIsPositiveAndFinite) {
  EXPECT_EQ(*keys_.Number("number"), 0.5);
  EXPECT_EQ(Error(keys_.Number("negative")), "m.gguf: a.negative is -1; must be a positive number");
  EXPECT_FALSE(keys_.Number("infinite").ok());
  EXPECT_FALSE(keys_.NumberOr("none", 3).ok()) << "the key is there";
  EXPECT_EQ(*keys_.NumberOr("missing", 3), 3);
  EXPECT_EQ(*keys_.NumberUnlessNone("none", 3), 3);
  EXPECT_EQ(*keys_.NumberUnlessNone("missing", 3), 3);
  EXPECT_EQ(*keys_.NumberUnlessNone("number", 3), 0.5);
  EXPECT_FALSE(keys_.NumberUnlessNone("negative", 3).ok());
}

TEST_F(ModelKeysTest, ErrorsNameFileAndKey) {
  EXPECT_EQ(keys_.Invalid("x", "is odd"), absl::InvalidArgumentError("m.gguf: a.x is odd"));
  EXPECT_EQ(keys_.Unsupported("x", "is new"), absl::UnimplementedError("m.gguf: a.x is new"));
}

}  // namespace
}  // namespace baton
