#include "common/gguf/gguf_file.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TinyPath(const std::string& name) {
  return std::string(BATON_TEST_DATA) + "/tiny/" + name;
}

GgufFile OpenTiny(const std::string& name) {
  absl::StatusOr<GgufFile> file = GgufFile::Open(TinyPath(name));
  if (!file.ok()) {
    ADD_FAILURE() << file.status();
    std::abort();
  }
  return *std::move(file);
}

TEST(GgufFile, OpensEveryTinyModel) {
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TinyPath(""))) {
    if (entry.path().extension() != ".gguf") continue;
    const absl::StatusOr<GgufFile> file = GgufFile::Open(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_FALSE(file->tensors().empty());
    EXPECT_EQ(file->size_bytes(), entry.file_size());
    ++opened;
  }
  EXPECT_EQ(opened, 15);
}

TEST(GgufFile, ReadsTheMetadataOfATinyModel) {
  const GgufFile file = OpenTiny("tiny-llama-f32.gguf");
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint("llama.block_count"), 3u);
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.tokens")->size(), 320u);
  EXPECT_EQ(file.GetInts("tokenizer.ggml.token_type")->size(), 320u);
  EXPECT_GT(*file.GetFloat("llama.attention.layer_norm_rms_epsilon"), 0.0);
}

TEST(GgufFile, RealModelHasItsTensorsAndDigest) {
  const char* path = std::getenv("BATON_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "BATON_TEST_MODEL is not set";
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(ToHex(file->Digest()),
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

}  // namespace
}  // namespace baton
