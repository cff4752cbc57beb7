#include "common/gguf/model_name.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace baton {
namespace {

TEST(DefaultModelName, IsThatOfTheFileWithoutItsFolderAndItsKind) {
  EXPECT_EQ(DefaultModelName("/models/SmolLM2-135M.Q4_1.gguf"), "SmolLM2-135M.Q4_1");
  EXPECT_EQ(DefaultModelName("tiny.gguf"), "tiny");
  EXPECT_EQ(DefaultModelName("/models/Qwen2.5-0.5B"), "Qwen2.5-0.5B") << "a folder";
}

TEST(DefaultModelName, IsTheSameHoweverTheFolderIsWritten) {
  for (const char* path : {"/models/qwen/", "/models/qwen/.", "/models/other/../qwen//"}) {
    EXPECT_EQ(DefaultModelName(path), "qwen") << path;
  }
  EXPECT_EQ(DefaultModelName("."), std::filesystem::current_path().filename());
}

}  // namespace
}  // namespace baton
