#include "common/engine/sequence_form.h"

#include "common/base/token_mask.h"

namespace baton {

absl::Status SequenceForm::Accept(int32_t token) {
  mask.clear();
  if (is_slow()) return absl::OkStatus();
  const absl::Status status = state.Accept(token);
  return state.failed() ? absl::OkStatus() : status;
}

std::vector<uint32_t> SequenceForm::EmptyMask() const {
  return std::vector<uint32_t>(MaskWords(state.vocab_size()));
}

}  // namespace baton
