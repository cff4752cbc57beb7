#include "client/run_arguments.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunArgumentsTest : public ::testing::Test {
 protected:
  RunArgumentsTest() : folder_(testing::TempDir() + "/run_arguments_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  std::string File(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ + "/" + name) << content;
    return folder_ + "/" + name;
  }
  static RunArguments Read(const std::optional<std::string>& first,
                           const std::optional<std::string>& second = std::nullopt) {
    const absl::StatusOr<RunArguments> arguments = ReadRunArguments(first, second);
    EXPECT_TRUE(arguments.ok()) << arguments.status();
    return arguments.ok() ? *arguments : RunArguments();
  }

  const std::string folder_;
};

TEST_F(RunArgumentsTest, OneThatIsAModelIsTheModel) {
  const std::string folder = folder_ + "/model";
  std::filesystem::create_directory(folder);
  File("model/config.json", "{}");
  for (const std::string& model :
       {std::string("nowhere/model.gguf"), File("blob", "GGUF\x03 and more"), folder}) {
    EXPECT_EQ(Read(model).model, model);
    EXPECT_FALSE(Read(model).prompt.has_value()) << model;
  }
}

TEST_F(RunArgumentsTest, OneThatIsNoModelIsThePrompt) {
  for (const std::string& prompt :
       {std::string("Why is the sky blue?"), std::string(), std::string("model.gguf is what?"),
        std::string(1 << 20, 'a'), File("notes.txt", "GGU"), File("text", "What is GGUF?"),
        File("empty", ""), folder_}) {
    EXPECT_EQ(Read(prompt).model, "");
    EXPECT_EQ(Read(prompt).prompt, prompt);
  }
  EXPECT_EQ(Read(std::nullopt).model, "");
  EXPECT_FALSE(Read(std::nullopt).prompt.has_value());
}

TEST_F(RunArgumentsTest, APipeIsNotReadToFindOut) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(LooksLikeModel(pipe));
}

TEST_F(RunArgumentsTest, OfTwoTheFirstIsTheModel) {
  const RunArguments arguments = Read("m.gguf", "n.gguf");
  EXPECT_EQ(arguments.model, "m.gguf");
  EXPECT_EQ(arguments.prompt, "n.gguf");
  for (const char* first : {"hello", "llama3.2", "HuggingFaceTB/SmolLM2-135M-Instruct"}) {
    EXPECT_THAT(std::string(ReadRunArguments(first, "world").status().message()),
                AllOf(HasSubstr(first), HasSubstr("quote a prompt that has spaces")));
  }
}

}  // namespace
}  // namespace baton
