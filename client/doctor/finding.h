// What `baton doctor` has found: one line for each thing that it looked at.
#pragma once

#include <string>
#include <vector>

namespace baton {

enum class Verdict {
  kOk,
  kWarning,  // it works, but not as well as it could, or not for long
  kFailed,   // it does not work
  kSkipped,  // it could not be looked at, or there is nothing to look at
};
inline constexpr Verdict kAllVerdicts[] = {Verdict::kOk, Verdict::kWarning, Verdict::kFailed,
                                           Verdict::kSkipped};

// "ok", "warning", "failed" or "skipped".
const char* VerdictName(Verdict verdict);

// Texts may be anything that files and peers say; who prints them makes them safe.
struct Finding {
  std::string check{};    // what was looked for: a topic and a word, such as "certificate.expiry"
  std::string subject{};  // where: a file, an address, a worker; empty: this machine
  Verdict verdict = Verdict::kOk;
  std::string found{};   // what is there
  std::string remedy{};  // what to do; empty: nothing
};
using Findings = std::vector<Finding>;

bool AnyFailed(const Findings& findings);

}  // namespace baton
