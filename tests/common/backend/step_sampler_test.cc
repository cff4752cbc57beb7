#include "common/backend/step_sampler.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// The fault of a model must not look like one of the request, nor the other way round.
TEST(StepSamplerErrors, ALogitThatIsNoNumberIsTheModelsFaultAndNamesTheOutput) {
  EXPECT_TRUE(absl::IsInternal(LogitNotFinite(17)));
  EXPECT_NE(LogitNotFinite(17).message().find("output 17"), absl::string_view::npos);
  EXPECT_NE(LogitNotFinite(0), LogitNotFinite(1));
}

TEST(StepSamplerErrors, AVocabularyThatIsMaskedIsTheRequestsFaultAndNamesItsField) {
  EXPECT_TRUE(absl::IsInvalidArgument(AllMasked()));
  EXPECT_EQ(AllMasked().message().find("sampling_params.stop_token_ids: "), 0u);
}

}  // namespace
}  // namespace baton
