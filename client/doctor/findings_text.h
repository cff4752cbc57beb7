// Findings as `baton doctor` prints them.
#pragma once

#include <string>

#include "client/doctor/finding.h"

namespace baton {

// A line for each finding, a second one where something is to be done, and a last one with the
// count of each verdict. Everything is printable ASCII.
std::string FindingsTable(const Findings& findings);

// {"checks": [{"check", "subject", "verdict", "found", "remedy"}], "ok", "warning", "failed",
// "skipped"} and a newline. The last four are counts. "subject" and "remedy" are left out if
// they are empty. What is not UTF-8 becomes U+FFFD.
std::string FindingsJson(const Findings& findings);

}  // namespace baton
