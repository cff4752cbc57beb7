// Models that are split into several files.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"
#include "common/gguf/gguf_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using Part = GgufFile::Part;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string PartName(int part, int count) {
  return absl::StrFormat("m-%05d-of-%05d.gguf", part, count);
}

// Part `part`, from 1, of three, with the tensors "aPART" and "bPART".
GgufBuilder ThirdOfModel(int part) {
  GgufBuilder builder;
  if (part == 1) builder.Text("general.name", "whole").Text("tokenizer.ggml.model", "gpt2");
  builder.Scalar<uint16_t>("split.no", 2, static_cast<uint16_t>(part - 1));
  builder.Scalar<uint16_t>("split.count", 2, 3);
  builder.Scalar<int32_t>("split.tensors.count", 5, 6);
  for (const char* letter : {"a", "b"}) {
    builder.TensorWithData(absl::StrCat(letter, part), {8}, 0,
                           std::string(32, static_cast<char>(letter[0] + part)));
  }
  return builder;
}

class SplitFiles : public ::testing::Test {
 protected:
  SplitFiles() {
    for (int part = 1; part <= 3; ++part) Write(part, ThirdOfModel(part));
  }
  std::string Write(int part, const GgufBuilder& builder) {
    return folder_.File(PartName(part, 3), builder.Build());
  }
  std::string First() const { return folder_.path() + "/" + PartName(1, 3); }
  std::string ErrorOf(const std::string& path, Part part = Part::kAll) {
    return std::string(GgufFile::Open(path, part).status().message());
  }

  TemporaryFolder folder_{"split_files"};
};

TEST_F(SplitFiles, HaveTheTensorsOfAllPartsAndTheMetadataOfTheFirst) {
  const auto file = GgufFile::Open(First());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->GetString("general.name"), "whole");
  EXPECT_EQ(file->tensors().size(), 6u);
  for (const char* name : {"a1", "b1", "a2", "b2", "a3", "b3"}) {
    const GgufTensor* tensor = file->FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->data.size(), 32u);
    const HeldTensor held = file->Hold(*tensor);
    for (const uint8_t byte : held->data) {
      ASSERT_EQ(byte, name[0] + (name[1] - '0')) << name;
    }
  }
}

TEST_F(SplitFiles, HaveTheDigestOfTheListOfTheirDigests) {
  std::string list;
  uint64_t bytes = 0;
  for (int part = 1; part <= 3; ++part) {
    const std::string content = ThirdOfModel(part).Build();
    Sha256 hash;
    hash.Update(content);
    bytes += content.size();
    absl::StrAppend(&list, ToHex(hash.Finish()), "  ", PartName(part, 3), "\n");
  }
  Sha256 hash;
  hash.Update(list);
  const std::string expected = hash.Finish();
  double done = 0;
  const auto file = GgufFile::Open(First());
  EXPECT_EQ(file->Digest([&done](double fraction) { done = fraction; }), expected);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(file->size_bytes(), bytes);
  EXPECT_EQ(GgufFile::Open(First(), Part::kTokenizer)->Digest(), expected);
}

TEST_F(SplitFiles, AreOpenedByTheFirstOfThem) {
  const std::string second = folder_.path() + "/" + PartName(2, 3);
  for (const Part part : {Part::kAll, Part::kTokenizer}) {
    EXPECT_EQ(ErrorOf(second, part), second + ": is part 2 of 3; give the first one, " + First());
  }
  const std::string renamed = folder_.path() + "/other.gguf";
  std::filesystem::copy_file(First(), renamed);
  EXPECT_THAT(ErrorOf(renamed),
              HasSubstr("does not end in '-00001-of-00003.gguf'; rename the parts"));
}

TEST_F(SplitFiles, MustAllBeThereForTheWeightsButNotForTheTokenizer) {
  const std::string third = folder_.path() + "/" + PartName(3, 3);
  std::filesystem::remove(third);
  EXPECT_THAT(ErrorOf(First()), StartsWith(third + ": cannot be opened"));
  EXPECT_EQ(ErrorOf(First(), Part::kTokenizer), "");
}

TEST_F(SplitFiles, TheEmbeddingOfALaterPartCountsForTheTokenizerIfThePartIsThere) {
  GgufBuilder third = ThirdOfModel(3);
  third.tensors.front().name = "token_embd.weight";
  third.tensors.front().dims = {4, 2};
  Write(3, third);
  for (const Part part : {Part::kAll, Part::kTokenizer}) {
    EXPECT_EQ(GgufFile::Open(First(), part)->VocabularyRows(), 2u);
  }
  std::filesystem::remove(folder_.path() + "/" + PartName(3, 3));
  EXPECT_EQ(GgufFile::Open(First(), Part::kTokenizer)->VocabularyRows(), std::nullopt);
}

TEST_F(SplitFiles, MustBeOfOneModel) {
  const std::string second = folder_.path() + "/" + PartName(2, 3);
  Write(2, ThirdOfModel(3));
  EXPECT_THAT(ErrorOf(First()),
              StartsWith(second + ": its metadata keys 'split.*' should describe part 2 of 3 with "
                                  "6 tensors in all parts together, but do not; fetch all parts"));
  Write(2, GgufBuilder().Text("general.name", "whole"));
  EXPECT_THAT(ErrorOf(First()), StartsWith(second + ": its metadata keys 'split.*'"));
  Write(2, ThirdOfModel(2).TensorWithData("a1", {8}, 0, std::string(32, 'x')));
  EXPECT_THAT(ErrorOf(First()), StartsWith(second + ": tensor 'a1' is in an earlier part too; "));
  Write(2, ThirdOfModel(2).TensorWithData("c", {8}, 0, std::string(32, 'x')));
  EXPECT_THAT(ErrorOf(First()),
              HasSubstr("split.tensors.count is 6, but the parts have 7 tensors"));
}

TEST(GgufSplit, AFileInOnePartIsAWholeModelWhateverElseItSays) {
  const auto error = [](const GgufBuilder& builder) {
    return std::string(GgufFile::Parse(builder.Build(), "m.gguf").status().message());
  };
  EXPECT_EQ(error(GgufBuilder().Uint32("split.count", 1).Text("split.no", "?")), "");
  EXPECT_EQ(error(GgufBuilder().Uint32("split.count", 0)), "");
  EXPECT_THAT(error(ThirdOfModel(1)), HasSubstr("is one part of a model split into several files"));
  EXPECT_THAT(error(GgufBuilder().Text("split.count", "1")),
              HasSubstr("'split.count' is not an integer from 0 to 512"));
  EXPECT_THAT(error(GgufBuilder().Uint32("split.count", 513)), HasSubstr("'split.count' is no"));
  EXPECT_THAT(error(GgufBuilder().Uint32("split.count", 3)),
              HasSubstr("metadata key 'split.no' is missing"));
  EXPECT_THAT(error(GgufBuilder().Uint32("split.count", 3).Uint32("split.no", 3)),
              HasSubstr("'split.no' is not an integer from 0 to 2"));
  EXPECT_THAT(error(GgufBuilder().Uint32("split.count", 3).Uint32("split.no", 2)),
              HasSubstr("'split.tensors.count' is missing"));
}

}  // namespace
}  // namespace baton
