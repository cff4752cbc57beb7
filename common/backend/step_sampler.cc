#include "common/backend/step_sampler.h"

#include "absl/strings/str_cat.h"

namespace baton {

absl::Status LogitNotFinite(int output_index) {
  return absl::InternalError(
      absl::StrCat("the model produced a logit that is not a number at output ", output_index));
}

absl::Status PromptLogitNotFinite() {
  return absl::InternalError("the model produced a logit that is not a number in the prompt");
}

absl::Status AllMasked() {
  return absl::InvalidArgumentError(
      "sampling_params.stop_token_ids: no token is left to choose, as the stop tokens are masked "
      "until there are min_tokens");
}

}  // namespace baton
