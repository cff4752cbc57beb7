#include "common/flags/flags.h"

#include <cstdlib>
#include <fstream>
#include <limits>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/flags/flag_value.h"

namespace baton {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class FlagsTest : public ::testing::Test {
 protected:
  ~FlagsTest() override {
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }

  void SetVariable(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  std::string WriteConfig(const std::string& text) {
    const std::string path = ::testing::TempDir() + "flags_test.toml";
    std::ofstream(path) << text;
    return path;
  }

  absl::Status Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "prog");
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    flags_ = std::make_unique<FlagSet>("prog", "A test.");
    flags_->AddString("text-value", text_, "Text");
    flags_->AddString("log-level", level_, "Level", {"info", "debug"});
    flags_->AddInt("max-num-seqs", seqs_, 1, 4096, "Sequences");
    flags_->AddDouble("part", part_, 0, 1, "Part");
    flags_->AddBytes("memory", memory_, "Memory");
    flags_->AddDuration("wait", wait_, absl::ZeroDuration(), absl::Minutes(5), "Wait");
    flags_->AddBool("quick", quick_, "Quick");
    flags_->AddStrings("decode", decode_, "Workers");
    flags_->AddTexts("stop", stops_, "Texts");
    flags_->AddInts("b,batch", batches_, 1, 100, "Batches");
    flags_->AddAddress("server", server_, "Address");
    flags_->AddAddress("health", health_, "Address or none");
    flags_->AddAddresses("peers", peers_, "Addresses");
    flags_->AddForeign("api-key", "give --key-file FILE");
    flags_->AllowPositional("text-value", "TEXT", "Text");
    flags_->AddPositional("rest", rest_, "Rest");
    return flags_->Parse(static_cast<int>(argv.size()), argv.data());
  }

  std::unique_ptr<FlagSet> flags_;
  std::string text_ = "default";
  std::string level_ = "info";
  int seqs_ = 64;
  double part_ = 0.5;
  uint64_t memory_ = 0;
  absl::Duration wait_ = absl::Seconds(30);
  bool quick_ = false;
  std::vector<std::string> decode_ = {"default:1"};
  std::vector<std::string> stops_;
  std::vector<int> batches_ = {1};
  std::string server_ = "default:1";
  std::string health_;
  std::vector<std::string> peers_;
  std::optional<std::string> rest_;
  std::vector<std::string> variables_;
};

TEST_F(FlagsTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string config = "--config=" + WriteConfig("max-num-seqs = 3\ntext-value = \"file\"\n");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(seqs_, 64);
  ASSERT_TRUE(Parse({config}).ok());
  EXPECT_EQ(seqs_, 3);
  SetVariable("BATON_MAX_NUM_SEQS", "2");
  ASSERT_TRUE(Parse({config}).ok());
  EXPECT_EQ(seqs_, 2);
  ASSERT_TRUE(Parse({"--max-num-seqs", "1", config}).ok());
  EXPECT_EQ(seqs_, 1);
  EXPECT_EQ(text_, "file");
}

TEST_F(FlagsTest, ReadsEveryKindOfValueFromTheFile) {
  const absl::Status status = Parse({"--config", WriteConfig(R"(
# a comment
text-value = "a # b = c"   # and another
max-num-seqs = 1_000
part = 0.25
memory = "2GiB"
wait = '250ms'
quick = true
decode = ["d-0.decode:50051", "d-1.decode:50051"]
)")});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(text_, "a # b = c");
  EXPECT_EQ(seqs_, 1000);
  EXPECT_EQ(part_, 0.25);
  EXPECT_EQ(memory_, uint64_t{2} << 30);
  EXPECT_EQ(wait_, absl::Milliseconds(250));
  EXPECT_TRUE(quick_);
  EXPECT_THAT(decode_, ElementsAre("d-0.decode:50051", "d-1.decode:50051"));
}

TEST_F(FlagsTest, RepeatedFlagsAndCommasMakeAList) {
  ASSERT_TRUE(Parse({"--decode", "a:1", "--decode=b:2,c:3"}).ok());
  EXPECT_THAT(decode_, ElementsAre("a:1", "b:2", "c:3"));
  SetVariable("BATON_DECODE", "x:1, y:2");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_THAT(decode_, ElementsAre("x:1", "y:2"));
}

TEST_F(FlagsTest, BooleansCanBeSetBothWays) {
  ASSERT_TRUE(Parse({"--quick"}).ok());
  EXPECT_TRUE(quick_);
  ASSERT_TRUE(Parse({"--no-quick"}).ok());
  EXPECT_FALSE(quick_);
  ASSERT_TRUE(Parse({"--quick=true"}).ok());
  EXPECT_TRUE(quick_);
  ASSERT_TRUE(Parse({"--quick=false"}).ok());
  EXPECT_FALSE(quick_);
  SetVariable("BATON_QUICK", "1");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_TRUE(quick_);
}

TEST_F(FlagsTest, AFlagOfOtherProgramsIsAnErrorThatNamesWhatToGiveHere) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--api-key", "hunter2"},
        {"--api-key=hunter2", "--quick"},
        {"--api-key"},
        {"--api-key", "hunter2", "hunter3", "--quick"}}) {
    EXPECT_EQ(Message(Parse(arguments)), "--api-key: give --key-file FILE");
  }
  SetVariable("BATON_API_KEY", "hunter2");
  EXPECT_TRUE(Parse({}).ok()) << "clients read this variable";
  EXPECT_THAT(Message(Parse({"--api-kay", "hunter2"})), Not(HasSubstr("did you mean")));
  for (const FlagFacts& flag : flags_->Facts("prog").flags) EXPECT_NE(flag.name, "api-key");
  EXPECT_THAT(flags_->Names(), Not(Contains("api-key")));
}

TEST_F(FlagsTest, AnUnknownKeyNamesFileAndKey) {
  const absl::Status status = Parse({"--config", WriteConfig("max_num_seqs = 3\n")});
  EXPECT_THAT(
      Message(status),
      HasSubstr("flags_test.toml: unknown key 'max_num_seqs'; did you mean 'max-num-seqs'?"));
  EXPECT_THAT(Message(Parse({"--config", WriteConfig("nonsense = 3\n")})),
              HasSubstr("unknown key 'nonsense'"));
  EXPECT_THAT(Message(Parse({"--config", WriteConfig("[table]\nquick = true\n")})),
              HasSubstr("table"));
  EXPECT_THAT(Message(Parse({"--config", WriteConfig("quick = true\nquick ! 3\n")})),
              HasSubstr(":2:7: not TOML"));
  EXPECT_THAT(Message(Parse({"--config", WriteConfig("max-num-seqs = [1, 2]\n")})),
              HasSubstr("takes one value"));
  EXPECT_THAT(Message(Parse({"--config", "/nonexistent.toml"})), HasSubstr("No such file"));
}

TEST_F(FlagsTest, ABadValueNamesFlagSourceValueAndRemedy) {
  EXPECT_EQ(Message(Parse({"--max-num-seqs=many"})),
            "--max-num-seqs: 'many' is not a whole number from 1 to 4096");
  SetVariable("BATON_WAIT", "30");
  EXPECT_EQ(
      Message(Parse({})),
      "--wait (from BATON_WAIT): '30' is not a duration with a unit, such as 250ms, 30s or 2m");
  unsetenv("BATON_WAIT");
  EXPECT_THAT(Message(Parse({"--log-level=loud"})),
              HasSubstr("--log-level: 'loud' is not one of info, debug"));
  for (const char* argument :
       {"--max-num-seqs=0", "--max-num-seqs=-1", "--max-num-seqs=1.5",
        "--max-num-seqs=", "--max-num-seqs=99999999999999999999", "--part=nan", "--part=1.01",
        "--memory=-1", "--memory=1XB", "--memory=1.0001k1", "--wait=-1s", "--wait=6m",
        "--quick=perhaps", "--unknown", "--batch=1,0", "--server=", "--server=nowhere",
        "--server=http://host:1", "--peers=a:1,b"}) {
    EXPECT_FALSE(Parse({argument}).ok()) << argument;
  }
}

TEST_F(FlagsTest, HandsOnWhatWasGivenAndNothingElse) {
  SetVariable("BATON_MEMORY", "1k");
  ASSERT_TRUE(Parse({"--decode=a:1,b:2", "--quick", "--config", WriteConfig("part = 0.5\n")}).ok());
  EXPECT_THAT(flags_->GivenArguments(), ElementsAre("--part=0.5", "--memory=1k", "--quick=true",
                                                    "--decode=a:1", "--decode=b:2"));
  std::vector<std::string> arguments = flags_->GivenArguments();
  unsetenv("BATON_MEMORY");
  decode_.clear();
  ASSERT_TRUE(Parse(arguments).ok());
  EXPECT_EQ(memory_, 1000u);
  EXPECT_THAT(decode_, ElementsAre("a:1", "b:2"));
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_THAT(flags_->GivenArguments(), IsEmpty());
}

TEST_F(FlagsTest, TextsAreNotCutAtCommas) {
  ASSERT_TRUE(Parse({"--stop", "a, b", "--stop=c"}).ok());
  EXPECT_THAT(stops_, ElementsAre("a, b", "c"));
  SetVariable("BATON_STOP", "x,y");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_THAT(stops_, ElementsAre("x,y"));
  ASSERT_TRUE(Parse({"--config", WriteConfig("decode = []\n"), "--stop", "z"}).ok());
  EXPECT_THAT(stops_, ElementsAre("z"));
}

TEST_F(FlagsTest, AFileThatIsNotUtf8NamesThePlace) {
  EXPECT_THAT(Message(Parse({"--config", WriteConfig("quick = true\ntext-value = 'a\xff'\n")})),
              HasSubstr("flags_test.toml:2:15: not TOML"));
}

TEST_F(FlagsTest, AnEmptyValueIsNotTheNextArgument) {
  ASSERT_TRUE(Parse({"--stop=", "argument", "--", "--stop="}).ok());
  EXPECT_THAT(stops_, ElementsAre(""));
  EXPECT_EQ(text_, "argument");
  EXPECT_EQ(rest_, "--stop=");
}

TEST_F(FlagsTest, AShortNameIsTheSameFlag) {
  ASSERT_TRUE(Parse({"-b", "4,8", "-b", "16"}).ok());
  EXPECT_THAT(batches_, ElementsAre(4, 8, 16));
  EXPECT_THAT(flags_->GivenArguments(), ElementsAre("--batch=4", "--batch=8", "--batch=16"));
  SetVariable("BATON_BATCH", "2,3");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_THAT(batches_, ElementsAre(2, 3));
  ASSERT_TRUE(Parse({"-b", "5"}).ok());
  EXPECT_THAT(batches_, ElementsAre(5));
}

TEST_F(FlagsTest, AddressesLoseTheSchemeThatServersPrint) {
  ASSERT_TRUE(Parse({"--server=grpc://host:1", "--peers=grpc://a:1,b:2"}).ok());
  EXPECT_EQ(server_, "host:1");
  EXPECT_THAT(peers_, ElementsAre("a:1", "b:2"));
  EXPECT_TRUE(Parse({"--health="}).ok());  // an empty address is none, as without the flag
  SetVariable("BATON_SERVER", "tcp://host:1");
  EXPECT_THAT(Message(Parse({})),
              HasSubstr("--server (from BATON_SERVER): 'tcp://host:1' is not an "
                        "address: the scheme 'tcp' is not known"));
}

TEST_F(FlagsTest, AnArgumentMayStandForAFlagButNotBesideIt) {
  SetVariable("BATON_TEXT_VALUE", "environment");
  ASSERT_TRUE(Parse({"here", "more"}).ok());
  EXPECT_EQ(text_, "here");
  EXPECT_EQ(rest_, "more");
  EXPECT_THAT(flags_->GivenArguments(), ElementsAre("--text-value=here"));
  EXPECT_EQ(Message(Parse({"here", "--text-value=there"})),
            "TEXT and --text-value set the same value; give one of them");
}

TEST_F(FlagsTest, HostAndPortOfOtherServersAreAnAddressTogether) {
  const auto address = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "prog");
    std::string listen = "auto";
    FlagSet flags("prog", "A test.");
    flags.AddString("http-listen", listen, "Address");
    const absl::Status status = flags.Parse(static_cast<int>(arguments.size()), arguments.data());
    return status.ok() ? listen : Message(status);
  };
  EXPECT_EQ(address({}), "auto");
  EXPECT_EQ(address({"--host", "0.0.0.0"}), "0.0.0.0:8080");
  EXPECT_EQ(address({"--port=9000"}), "127.0.0.1:9000");
  EXPECT_EQ(address({"--host=::", "--port=1"}), "[::]:1");
  EXPECT_THAT(address({"--port=x"}), HasSubstr("--port: 'x' is not a whole number"));
  EXPECT_EQ(address({"--http-listen=a:1", "--port=2"}),
            "--http-listen and --host with --port set the same value; give one of them");
  SetVariable("BATON_PORT", "tcp://10.0.0.1:80");
  SetVariable("BATON_HTTP_LISTEN", "b:3");
  EXPECT_EQ(address({}), "b:3");
  EXPECT_EQ(address({"--port=2"}), "127.0.0.1:2") << "the command line goes first";
}

TEST_F(FlagsTest, ANameOfOtherProgramsIsTheSameFlag) {
  const auto given = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "prog");
    int tokens = 0;
    FlagSet flags("prog", "A test.");
    flags.AddInt("max-model-len", tokens, 0, 100, "Tokens");
    const absl::Status status = flags.Parse(static_cast<int>(arguments.size()), arguments.data());
    EXPECT_THAT(flags.Names(), ElementsAre("max-model-len"));
    return status.ok() ? absl::StrJoin(flags.GivenArguments(), " ") : Message(status);
  };
  EXPECT_EQ(given({"-c", "2"}), "--max-model-len=2");
  EXPECT_EQ(given({"--ctx-size=2"}), "--max-model-len=2");
  EXPECT_EQ(given({"--context-length", "1", "--context-length", "2"}), "--max-model-len=2");
  EXPECT_EQ(given({"-c", "2", "--ctx-size", "2"}),
            "--max-model-len and --ctx-size set the same value; give one of them");
  EXPECT_THAT(given({"--ctx-size=many"}),
              HasSubstr("--max-model-len (from --ctx-size): 'many' is not"));
}

TEST_F(FlagsTest, AFlagIsSetByNameAsOnTheCommandLine) {
  ASSERT_TRUE(Parse({}).ok());
  ASSERT_TRUE(flags_->Set("max-num-seqs", "7").ok());
  ASSERT_TRUE(flags_->Set("stop", "a,b").ok());
  ASSERT_TRUE(flags_->Set("stop", "c").ok());
  EXPECT_EQ(seqs_, 7);
  EXPECT_THAT(stops_, ElementsAre("c"));
  EXPECT_EQ(Message(flags_->Set("max-num-seqs", "0")),
            "--max-num-seqs: '0' is not a whole number from 1 to 4096");
  EXPECT_EQ(seqs_, 7);
  EXPECT_EQ(Message(flags_->Set("xyzzy", "1")), "there is no setting 'xyzzy'");
  EXPECT_EQ(Message(flags_->Set("max-num-seq", "1")),
            "there is no setting 'max-num-seq'; did you mean 'max-num-seqs'?");
}

TEST_F(FlagsTest, FlagsThatExcludeEachOtherAreNamedWithTheirSources) {
  SetVariable("BATON_TEXT_VALUE", "x");
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_TRUE(flags_->Given("text-value"));
  EXPECT_FALSE(flags_->Given("server"));
  EXPECT_TRUE(flags_->CheckNotBoth("text-value", "server").ok());
  ASSERT_TRUE(Parse({"--server=a:1"}).ok());
  EXPECT_EQ(
      Message(flags_->CheckNotBoth("text-value", "server")),
      "--text-value (from BATON_TEXT_VALUE) and --server exclude each other; give one of them");
}

TEST_F(FlagsTest, AFlagThatIsAboutAnotherNeedsIt) {
  ASSERT_TRUE(Parse({"--part=0.1"}).ok());
  EXPECT_EQ(Message(flags_->CheckNeeds("part", "memory")),
            "--part has an effect only with --memory; give that flag too");
  EXPECT_TRUE(flags_->CheckNeeds("memory", "part").ok());
  ASSERT_TRUE(Parse({"--part=0.1", "--memory=1k"}).ok());
  EXPECT_TRUE(flags_->CheckNeeds("part", "memory").ok());
}

TEST_F(FlagsTest, AWrongValueIsShownOnOneLine) {
  SetVariable("BATON_MAX_NUM_SEQS", "1\n\xff");
  EXPECT_EQ(
      Message(Parse({})),
      "--max-num-seqs (from BATON_MAX_NUM_SEQS): '1\\u000a\\u00ff' is not a whole number from "
      "1 to 4096");
}

TEST(ExitUsage, PrintsOneLineThatATerminalDoesNotInterpretWhateverTheMessage) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ExitUsage("prog", absl::InvalidArgumentError("a\x1b[2J\r\nError: b\u009b")),
            kExitUsage);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "prog: a\\u001b[2J\\u000d\\u000aError: b\\u009b\n");
}

TEST_F(FlagsTest, AnotherValueOfAFlagThatHasOneIsAWarning) {
  SetVariable("BATON_VARIABLES_CHECKED", "1");
  testing::internal::CaptureStderr();
  const absl::Status status = Parse({"--text-value=a", "--text-value=b", "--stop=x", "--stop=y",
                                     "--part=1", "--part=1", "--decode=d"});
  const std::string warnings = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(text_, "b");
  EXPECT_EQ(warnings,
            "prog: warning: --text-value is given 2 times; the last value, 'b', counts\n");
}

TEST(ParseCount, KnowsDecimalAndBinarySuffixes) {
  EXPECT_EQ(*ParseCount("1k"), 1000u);
  EXPECT_EQ(*ParseCount("1K"), 1024u);
  EXPECT_EQ(*ParseCount("1.5GiB"), 3u << 29);
  EXPECT_EQ(*ParseCount("20 MB"), 20000000u);
  EXPECT_EQ(*ParseCount("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  for (const char* bad :
       {"", "k", "1.5", "-1", "1e3", "nan", "0x10", "1KK", "99999999TiB", "1..5k"}) {
    EXPECT_FALSE(ParseCount(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace baton
