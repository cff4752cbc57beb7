#include "bench/serve/load_run.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/small_file.h"
#include "router/tenants/api_key.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

class LoadRunTest : public RouterFixture {
 protected:
  LoadOptions Options(std::vector<LoadClass> classes) {
    LoadOptions options;
    options.server = address_;
    options.classes = std::move(classes);
    options.warmup = absl::ZeroDuration();
    options.duration = absl::Milliseconds(400);
    options.connections = 2;
    options.vocab_size = 26;
    return options;
  }
  static std::vector<LoadSamples> Run(const LoadOptions& options) {
    auto run = LoadRun::Create(options, Credentials::Loopback());
    EXPECT_TRUE(run.ok()) << run.status();
    return (*run)->Run().classes;
  }
};

TEST_F(LoadRunTest, CountsEveryRequestAndEveryTokenOfEachClass) {
  AddPrefill();
  AddDecode();
  Start();
  const auto classes =
      Run(Options({{.name = "open", .rate = 100, .input_tokens = 5, .output_tokens = 9},
                   {.name = "closed", .concurrency = 3, .input_tokens = 5, .output_tokens = 4}}));
  ASSERT_EQ(classes.size(), 2u);
  const LoadSamples& open = classes[0];
  EXPECT_GT(open.offered, 10u);
  EXPECT_EQ(open.completed, open.offered);
  EXPECT_EQ(open.good, open.completed) << "there is no objective";
  EXPECT_EQ(open.ttft_ms.size(), open.offered);
  EXPECT_EQ(open.send_lag_ms.size(), open.offered);
  EXPECT_LE(open.tokens, open.offered * 9) << "those after the window do not count";
  const LoadSamples& closed = classes[1];
  EXPECT_GT(closed.completed, 3u);
  EXPECT_EQ(closed.completed + closed.cut, closed.offered);
  EXPECT_GE(closed.tokens, closed.completed * 4);
  ExpectNothingLeft();
}

TEST_F(LoadRunTest, EveryRequestShowsTheKey) {
  const std::string path = testing::TempDir() + "load_run_test", key = MakeApiKey();
  const KeysFile file{.tenants = {{"acme", {}}},
                      .keys = {{.hash = HashApiKey(key), .tenant = "acme"}}};
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const auto keys = ApiKeys::Load(path, metrics_, absl::Minutes(1));
  ASSERT_TRUE(keys.ok()) << keys.status();
  options_.keys = keys->get();
  options_.needs_identity = true;
  AddPrefill();
  AddDecode();
  Start();
  LoadOptions options = Options({{.rate = 100, .input_tokens = 5, .output_tokens = 3}});
  EXPECT_EQ(Run(options)[0].completed, 0u);
  ASSERT_TRUE(WriteSmallFile(path, key).ok());
  options.key = *ClientKey::Read(path, address_, Credentials::Loopback());
  const LoadSamples shown = Run(options)[0];
  EXPECT_GT(shown.completed, 10u);
  EXPECT_EQ(shown.completed, shown.offered);
  Stop();
  unlink(path.c_str());
}

TEST_F(LoadRunTest, LatencyIncludesTheWaitForOthersAndDecidesWhatIsGood) {
  AddPrefill().Behave({.before_first_token = absl::Milliseconds(30)});
  AddDecode();
  Start();
  LoadOptions options = Options({{.rate = 200, .input_tokens = 5, .output_tokens = 1}});
  options.objective.ttft = absl::Milliseconds(20);
  const auto classes = Run(options);
  EXPECT_GT(classes[0].completed, 10u);
  EXPECT_EQ(classes[0].good, 0u);
  EXPECT_GE(Percentile(classes[0].ttft_ms, 0), 30);
  // The workers serve two requests at a time, which is 67 of the 200 requests/s.
  EXPECT_GE(Percentile(classes[0].ttft_ms, 1), 200);
}

TEST_F(LoadRunTest, RefusalsAndFailuresAreCountedApart) {
  AddPrefill();
  AddDecode().Behave({.before_accept = absl::Hours(1)});
  options_.admission.requests = 5;
  Start();
  LoadOptions options = Options({{.rate = 100, .input_tokens = 5, .output_tokens = 3}});
  options.timeout = absl::Milliseconds(600);
  const auto classes = Run(options);
  EXPECT_GT(classes[0].refused, 0u);
  EXPECT_GT(classes[0].failed, 0u);
  EXPECT_EQ(classes[0].refused + classes[0].failed, classes[0].offered);
  EXPECT_EQ(classes[0].refusal_ms.size(), classes[0].refused);
  // Client and router each have the deadline; either may notice it first.
  for (const auto& [message, count] : classes[0].failures) {
    EXPECT_THAT(message, testing::HasSubstr("DEADLINE_EXCEEDED"));
  }
  ExpectNothingLeft();
}

TEST_F(LoadRunTest, WaitsForNobodyWhereNothingIsUnderWayAtTheEnd) {
  AddPrefill();
  AddDecode();
  Start();
  const LoadOptions options = Options({{.rate = 1e-6, .input_tokens = 5, .output_tokens = 3}});
  const absl::Time begin = SteadyNow();
  EXPECT_EQ(Run(options)[0].offered, 0u);
  EXPECT_LT(SteadyNow() - begin, options.timeout / 2);
}

TEST_F(LoadRunTest, WithoutAServerItSaysSo) {
  LoadOptions options = Options({{.rate = 1}});
  options.server = "127.0.0.1:1";
  const auto run = LoadRun::Create(options, Credentials::Loopback());
  EXPECT_EQ(run.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(run.status().ToString(), testing::HasSubstr("--server 127.0.0.1:1"));
}

}  // namespace
}  // namespace baton
