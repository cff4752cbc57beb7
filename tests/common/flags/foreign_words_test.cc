#include "common/flags/foreign_words.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OtherNamesOf, AFlagHasThoseThatMeanTheSame) {
  EXPECT_THAT(OtherNamesOf("max-model-len"), ElementsAre("-c", "--ctx-size", "--context-length"));
  EXPECT_THAT(OtherNamesOf("ctx-size"), IsEmpty());
}

TEST(AddressOf, JoinsHostAndPort) {
  EXPECT_EQ(*AddressOf("0.0.0.0", "8080"), "0.0.0.0:8080");
  EXPECT_EQ(*AddressOf("localhost", "0"), "localhost:0");
  EXPECT_EQ(*AddressOf("::", "1"), "[::]:1");
  EXPECT_EQ(*AddressOf("[::1]", "65535"), "[::1]:65535");
}

TEST(AddressOf, RefusesByName) {
  for (const char* port : {"", "65536", "-1", "tcp://10.0.0.1:80", "http"}) {
    EXPECT_THAT(std::string(AddressOf("h", port).status().message()), HasSubstr("--port: '"))
        << port;
  }
  for (const char* host : {"", "h:1", "0.0.0.0:8080", "[]"}) {
    EXPECT_THAT(std::string(AddressOf(host, "1").status().message()), HasSubstr("--host: '"))
        << host;
  }
}

TEST(FlagsIn, FindsEachFlagOfASentence) {
  EXPECT_THAT(FlagsIn("give --tls-cert FILE and --tls-key=FILE, or --insecure"),
              ElementsAre("--tls-cert", "--tls-key", "--insecure"));
  EXPECT_THAT(FlagsIn("leave it out - or not"), IsEmpty());
}

TEST(AdviceOnFlag, IsForCommandsThatHaveTheFlagsWhichItNames) {
  EXPECT_THAT(AdviceOnFlag("--port", {"--server", "--model"}), HasSubstr("--server HOST:PORT"));
  EXPECT_THAT(AdviceOnFlag("--port", {"--listen"}), HasSubstr("--listen HOST:PORT"));
  EXPECT_EQ(AdviceOnFlag("--port", {"--model"}), "");
  EXPECT_EQ(AdviceOnFlag("--nonsense", {"--server"}), "");
}

TEST(ForeignFlags, AreManyAndHaveNoNameOfTheirOwnTwice) {
  std::set<std::string> words, sentences;
  for (const ForeignFlag& foreign : ForeignFlags()) {
    words.emplace(foreign.word);
    EXPECT_TRUE(sentences.insert(std::string(foreign.word) + std::string(foreign.advice)).second)
        << foreign.word;
  }
  EXPECT_GT(words.size(), 60u);
  for (const char* word : {"--tensor-parallel-size",
                           "--dtype",
                           "-ngl",
                           "--n-gpu-layers",
                           "--quantization",
                           "--trust-remote-code",
                           "--api-key",
                           "-b",
                           "-np",
                           "--parallel",
                           "--mmproj",
                           "--lora",
                           "-fa",
                           "--jinja",
                           "--chat-template",
                           "--port",
                           "--host",
                           "--swap-space",
                           "--tool-call-parser",
                           "-hf",
                           "--mem-fraction-static",
                           "--enforce-eager",
                           "--metrics"}) {
    EXPECT_EQ(words.count(word), 1u) << word;
  }
}

TEST(WithOwnCommand, TranslatesTheFirstWordAlone) {
  const std::vector<std::string> commands = {"run", "models", "status", "bench"};
  EXPECT_THAT(WithOwnCommand({"list", "here"}, commands), ElementsAre("models", "here"));
  EXPECT_THAT(WithOwnCommand({"ps"}, commands), ElementsAre("status"));
  EXPECT_THAT(WithOwnCommand({"run", "list"}, commands), ElementsAre("run", "list"));
  EXPECT_THAT(WithOwnCommand({"version"}, commands), ElementsAre("--version"));
  EXPECT_THAT(WithOwnCommand({"help"}, commands), ElementsAre("--help"));
  EXPECT_THAT(WithOwnCommand({"help", "run"}, commands), ElementsAre("run", "--help"));
  EXPECT_THAT(WithOwnCommand({"help", "list"}, commands), ElementsAre("models", "--help"));
  EXPECT_THAT(WithOwnCommand({"help", "bench", "serve"}, commands),
              ElementsAre("bench", "serve", "--help"));
  EXPECT_THAT(WithOwnCommand({}, commands), IsEmpty());
  EXPECT_THAT(WithOwnCommand({"start"}, commands), ElementsAre("start")) << "there is no serve";
  EXPECT_THAT(WithOwnCommand({"help"}, {"help"}), ElementsAre("help")) << "a command of its own";
}

TEST(AdviceOnCommand, SaysWhatToDo) {
  EXPECT_THAT(std::string(AdviceOnCommand("pull")), HasSubstr("fetches no models"));
  EXPECT_EQ(AdviceOnCommand("xyzzy"), "");
}

}  // namespace
}  // namespace baton
