// The tests' way to make the requests that an engine takes.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/engine/checked_sequence.h"
#include "common/engine/request_check.h"

namespace baton {

struct TestSequences {
  // INVALID_ARGUMENT names the field of a misfit (request_check.h).
  static absl::StatusOr<CheckedSequence> Check(SequenceRequest request,
                                               const EngineLimits& limits) {
    if (const auto misfit = FindMisfit(request, limits)) {
      return absl::InvalidArgumentError(absl::StrCat(misfit->field, ": ", misfit->description));
    }
    return CheckedSequence(std::move(request));
  }
  // For tests that know that the request is good, or need one that no engine would run.
  static CheckedSequence Trust(SequenceRequest request) {
    return CheckedSequence(std::move(request));
  }
};

}  // namespace baton
