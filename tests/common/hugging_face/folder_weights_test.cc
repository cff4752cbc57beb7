#include "common/hugging_face/folder_weights.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/safetensors_builder.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr char kIndexFile[] = "model.safetensors.index.json";

std::string OneTensor(const std::string& name, float value) {
  return SafetensorsBuilder().Add(name, "F32", {1}, FloatBytes({value})).Build();
}

class FolderWeightsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    return folder_.File(name, content);
  }
  void WriteIndex(const std::string& map) {
    Write(kIndexFile, absl::StrCat("{\"weight_map\":", map, "}"));
  }
  std::string Error() const {
    ModelFiles files;
    return std::string(OpenFolderWeights(folder_.path(), true, files).status().message());
  }

  const TemporaryFolder folder_{"folder_weights"};
};

TEST_F(FolderWeightsTest, TensorsComeFromTheShardsOfTheIndex) {
  Write("a.safetensors", OneTensor("x", 1));
  Write("b.safetensors", OneTensor("y", 2));
  Write("c.safetensors", OneTensor("z", 3));  // no part of the model
  WriteIndex(R"({"x": "a.safetensors", "y": "b.safetensors"})");
  ModelFiles files;
  const auto tensors = OpenFolderWeights(folder_.path(), false, files);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ(tensors->at("x").file, "a.safetensors");
  EXPECT_EQ(tensors->at("y").file, "b.safetensors");
  const absl::Span<const uint8_t> data = tensors->at("y").tensor.data;
  EXPECT_EQ(std::string(data.begin(), data.end()), FloatBytes({2}));
}

TEST_F(FolderWeightsTest, WithoutAnIndexThereIsOneFile) {
  EXPECT_THAT(Error(), StartsWith(folder_.path() + ": has neither model.safetensors nor "));
  Write("model.safetensors", OneTensor("x", 1));
  ModelFiles files;
  const auto tensors = OpenFolderWeights(folder_.path(), false, files);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("x").file, "model.safetensors");
}

TEST_F(FolderWeightsTest, AnIndexThatDoesNotFitItsShardsIsRefused) {
  Write("a.safetensors", OneTensor("x", 1));
  Write("b.safetensors", OneTensor("y", 2));
  WriteIndex(R"({"x": "b.safetensors", "y": "a.safetensors"})");
  EXPECT_EQ(Error(), absl::StrCat(folder_.path(), "/", kIndexFile,
                                  ": lists tensor 'x' in b.safetensors, which does not contain it; "
                                  "fetch the folder again"));
  Write("b.safetensors", OneTensor("x", 2));
  WriteIndex(R"({"x": "a.safetensors", "z": "b.safetensors"})");
  EXPECT_EQ(Error(), absl::StrCat(folder_.path(),
                                  "/b.safetensors: tensor 'x' is in "
                                  "a.safetensors too; fetch the folder again"));
  Write("e\x1b.safetensors", OneTensor("y", 2));
  WriteIndex(R"({"x": "e\u001b.safetensors"})");
  EXPECT_THAT(
      Error(),
      EndsWith("in e\\u001b.safetensors, which does not contain it; fetch the folder again"));
  WriteIndex("{}");
  EXPECT_EQ(Error(), absl::StrCat(folder_.path(), "/", kIndexFile,
                                  ": weight_map names 0 files, not 1 to 512"));
}

TEST_F(FolderWeightsTest, ForADigestThoseThatAreThereAreAddedUnread) {
  const std::string broken = Write("a.safetensors", "no header");
  WriteIndex(R"({"x": "a.safetensors", "y": "b.safetensors"})");
  ModelFiles files;
  ASSERT_TRUE(AddFolderWeights(folder_.path(), files).ok());
  EXPECT_EQ(files.size_bytes(),
            std::filesystem::file_size(broken) +
                std::filesystem::file_size(absl::StrCat(folder_.path(), "/", kIndexFile)));
}

}  // namespace
}  // namespace baton
