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
      "sampling_params.stop_token_ids: every token that may come next is masked until min_tokens");
}

}  // namespace baton
