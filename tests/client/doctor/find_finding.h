// Finds what a test asks for among findings.
#pragma once

#include <string>

#include "absl/strings/match.h"

#include "client/doctor/finding.h"

namespace baton {

// The first of that check, and of a subject with that text in it; or one that says there is none.
inline Finding FindFinding(const Findings& findings, const std::string& check,
                           const std::string& subject = "") {
  for (const Finding& finding : findings) {
    if (finding.check == check && absl::StrContains(finding.subject, subject)) return finding;
  }
  return {
      .check = "no finding of " + check, .verdict = Verdict::kSkipped, .found = "", .remedy = ""};
}

}  // namespace baton
