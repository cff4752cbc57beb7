#include "bench/serve/trace_flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Arguments as they are read, and the errors of both steps.
struct TraceArguments {
  explicit TraceArguments(std::vector<const char*> arguments) {
    FlagSet flags("prog", "A test.");
    AddTraceFlags(flags, path, trace);
    arguments.insert(arguments.begin(), "prog");
    parsed = flags.Parse(static_cast<int>(arguments.size()), arguments.data());
    checked = CheckTraceFlags(flags);
  }

  std::string path;
  TraceOptions trace;
  absl::Status parsed, checked;
};

TEST(TraceFlags, SayWhatIsTakenOfATrace) {
  const TraceArguments given({"--trace=a.jsonl", "--time-scale=0.5", "--input-scale=2",
                              "--output-scale=3", "--max-input-len=4k", "--max-output-len=5",
                              "--trace-start=30s", "--num-prompts=7"});
  ASSERT_TRUE(given.parsed.ok()) << given.parsed;
  EXPECT_TRUE(given.checked.ok()) << given.checked;
  EXPECT_EQ(given.path, "a.jsonl");
  EXPECT_EQ(given.trace.time_scale, 0.5);
  EXPECT_EQ(given.trace.input_scale, 2);
  EXPECT_EQ(given.trace.output_scale, 3);
  EXPECT_EQ(given.trace.max_input_tokens, 4000);
  EXPECT_EQ(given.trace.max_output_tokens, 5);
  EXPECT_EQ(given.trace.start, absl::Seconds(30));
  EXPECT_EQ(given.trace.max_requests, 7);
}

TEST(TraceFlags, NoneIsNeeded) {
  const TraceArguments none({});
  EXPECT_TRUE(none.parsed.ok() && none.checked.ok());
  EXPECT_EQ(none.trace.time_scale, TraceOptions().time_scale);
  EXPECT_TRUE(TraceArguments({"--trace=a"}).checked.ok());
}

TEST(TraceFlags, EachOfThemNeedsATrace) {
  for (const char* flag : {"--time-scale", "--input-scale", "--output-scale", "--max-input-len",
                           "--max-output-len", "--num-prompts"}) {
    const TraceArguments alone({flag, "1"});
    ASSERT_TRUE(alone.parsed.ok()) << alone.parsed;
    EXPECT_THAT(std::string(alone.checked.message()), AllOf(HasSubstr(flag), HasSubstr("--trace")));
  }
  EXPECT_THAT(std::string(TraceArguments({"--trace-start=1s"}).checked.message()),
              HasSubstr("--trace-start"));
}

TEST(TraceFlags, AScaleIsAboveZero) {
  for (const char* argument : {"--time-scale=0", "--input-scale=-1", "--max-input-len=0"}) {
    EXPECT_FALSE(TraceArguments({"--trace=a", argument}).parsed.ok()) << argument;
  }
}

}  // namespace
}  // namespace baton
