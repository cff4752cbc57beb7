// How much memory long answers take.
#include <gtest/gtest.h>

#include "router/web/web_service.h"
#include "tests/router/web/raw_requests.h"
#include "tests/router/web/web_fixture.h"
#include "tests/support/allocation_counter.h"

namespace baton {
namespace {

using WebServiceMemoryTest = WebFixture;

TEST_F(WebServiceMemoryTest, TheTokensOfALongTextAreWrittenAsTheyAreRead) {
  constexpr size_t kTokens = 200000;  // a letter each
  StartHttp();
  const std::string text(kTokens, 'a');
  const auto make = [&](const char* field) {
    const std::string answers = "baton_http_requests_total";
    const double before = Metric(answers);
    RawRequests client(http_->address());
    ResetPeakBytes();
    const size_t live = LiveBytes();
    client.Send(RawPost("/tokenize", "",
                        absl::StrCat(R"({"content":")", text, R"(",")", field, R"(":true})")));
    Eventually([&] { return Metric(answers) > before; });
    return PeakBytes() - live;
  };
  // The text itself would be some 25 bytes for each token.
  const size_t plain = make("add_special");
  EXPECT_LT(make("with_pieces"), plain + 2 * kTokens);
  const auto answer = Post("/tokenize", {{"content", text}, {"with_pieces", true}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(Json::parse(answer->body)["tokens"].size(), kTokens);
}

}  // namespace
}  // namespace baton
