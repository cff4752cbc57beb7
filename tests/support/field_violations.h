// The fields that a status names, for tests.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/rpc/error_details.pb.h"

#include "common/rpc/status.h"

namespace baton {

inline std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  google::rpc::BadRequest detail;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  if (payload.has_value() && detail.ParseFromString(std::string(*payload))) {
    for (const auto& entry : detail.field_violations()) {
      violations.push_back({entry.field(), entry.description()});
    }
  }
  return violations;
}

}  // namespace baton
