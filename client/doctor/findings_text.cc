#include "client/doctor/findings_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostOfText = 1000;  // bytes; errors of others have no bound of their own

// Control characters could rewrite a terminal, so only printable ASCII stays.
std::string Printable(const std::string& text) {
  std::string printable = text.substr(0, kMostOfText);
  for (char& c : printable) {
    if (c == '\n' || c == '\t') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > kMostOfText ? printable + "..." : printable;
}

size_t CountOf(Verdict verdict, const Findings& findings) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [verdict](const Finding& finding) { return finding.verdict == verdict; }));
}

}  // namespace

std::string FindingsTable(const Findings& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.check.size());
  std::string text;
  for (const Finding& finding : findings) {
    const std::string subject = finding.subject.empty() ? "" : Printable(finding.subject) + ": ";
    absl::StrAppend(&text, absl::StrFormat("%-8s %-*s  ", VerdictName(finding.verdict),
                                           static_cast<int>(width), finding.check));
    absl::StrAppend(&text, subject, Printable(finding.found), "\n");
    if (finding.remedy.empty()) continue;
    absl::StrAppend(&text, std::string(width + 11, ' '), "-> ", Printable(finding.remedy), "\n");
  }
  std::vector<std::string> counts;
  for (const Verdict verdict : kAllVerdicts) {
    counts.push_back(absl::StrCat(CountOf(verdict, findings), " ", VerdictName(verdict)));
  }
  return absl::StrCat(text, absl::StrJoin(counts, ", "), "\n");
}

std::string FindingsJson(const Findings& findings) {
  Json json = {{"checks", Json::array()}};
  for (const Finding& finding : findings) {
    Json one = {{"check", finding.check}};
    if (!finding.subject.empty()) one["subject"] = finding.subject;
    one["verdict"] = VerdictName(finding.verdict);
    one["found"] = finding.found;
    if (!finding.remedy.empty()) one["remedy"] = finding.remedy;
    json["checks"].push_back(std::move(one));
  }
  for (const Verdict verdict : kAllVerdicts) {
    json[VerdictName(verdict)] = CountOf(verdict, findings);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace baton
