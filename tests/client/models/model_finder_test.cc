#include "client/models/model_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelFinder : public testing::Test {
 protected:
  // Writes an empty file: finding opens none.
  std::string Touch(const std::string& name) const {
    const std::filesystem::path path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    return folder_.File(name, "");
  }
  std::vector<std::string> Found(const std::string& below = "") const {
    const auto found = FindModels(folder_.path() + below);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : std::vector<std::string>{};
  }
  absl::Status Error(const std::string& below = "") const {
    return FindModels(folder_.path() + below).status();
  }

  const TemporaryFolder folder_{"model_finder"};
};

TEST_F(ModelFinder, TakesAFileAndAHuggingFaceFolderAsTheyAre) {
  const std::string file = Touch("weights.bin");
  Touch("hf/config.json");
  Touch("hf/inner/other.gguf");
  EXPECT_THAT(Found("/weights.bin"), ElementsAre(file));
  EXPECT_THAT(Found("/hf"), ElementsAre(folder_.path() + "/hf"));
}

TEST_F(ModelFinder, ListsWhatAFolderHoldsInTheOrderOfNames) {
  const std::string b = Touch("b.gguf");
  const std::string a = Touch("a.gguf");
  Touch("notes.txt");
  Touch("c/config.json");
  Touch("c/model.gguf");
  EXPECT_THAT(Found(), ElementsAre(a, b, folder_.path() + "/c"));
}

TEST_F(ModelFinder, LooksThreeLevelsDeep) {
  const std::string third = Touch("1/2/3/model.gguf");
  Touch("1/2/3/4/model.gguf");
  EXPECT_THAT(Found(), ElementsAre(third));
}

TEST_F(ModelFinder, NamesASplitModelByItsFirstPart) {
  const std::string first = Touch("m-00001-of-00002.gguf");
  Touch("m-00002-of-00002.gguf");
  const std::string lonely = Touch("n-00002-of-00002.gguf");
  EXPECT_THAT(Found(), ElementsAre(first, lonely));
}

TEST_F(ModelFinder, FollowsLinksAndEndsWhereTheyGoInARing) {
  Touch("blobs/0123");
  std::filesystem::create_symlink(folder_.path() + "/blobs/0123", folder_.path() + "/m.gguf");
  std::filesystem::create_symlink(folder_.path() + "/nowhere", folder_.path() + "/gone.gguf");
  std::filesystem::create_directory_symlink(folder_.path(), folder_.path() + "/ring");
  EXPECT_THAT(Found(), ElementsAre(folder_.path() + "/m.gguf", folder_.path() + "/ring/m.gguf",
                                   folder_.path() + "/ring/ring/m.gguf",
                                   folder_.path() + "/ring/ring/ring/m.gguf"));
}

TEST_F(ModelFinder, SaysThatAPathIsNotThereOrHoldsNothing) {
  EXPECT_EQ(Error("/nowhere").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Error("/nowhere").message()), HasSubstr("/nowhere: does not exist"));
  Touch("1/2/3/4/model.gguf");
  EXPECT_EQ(Error().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Error().message()),
              AllOf(HasSubstr(folder_.path()), HasSubstr("within 3 levels")));
}

TEST_F(ModelFinder, NamesTheBoundOfAFolderWithTooMuchInIt) {
  // Rings of links make much of little: 12 names, then 12 x 12, and so on.
  for (int i = 0; i < 12; ++i) {
    std::filesystem::create_directory_symlink(folder_.path(), absl::StrCat(folder_.path(), "/", i));
  }
  EXPECT_EQ(Error().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Error().message()), HasSubstr("10000"));
}

}  // namespace
}  // namespace baton
