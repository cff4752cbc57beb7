#include "common/flags/flag_group.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace baton {

absl::string_view FlagGroupTitle(FlagGroup group) {
  switch (group) {
    case FlagGroup::kModel:
      return "Model";
    case FlagGroup::kConnection:
      return "Connection";
    case FlagGroup::kRequest:
      return "Request";
    case FlagGroup::kSampling:
      return "Sampling defaults";
    case FlagGroup::kEngine:
      return "Engine";
    case FlagGroup::kKvCache:
      return "KV cache";
    case FlagGroup::kPrefillDecode:
      return "Prefill/decode";
    case FlagGroup::kSpeculation:
      return "Speculation";
    case FlagGroup::kHttp:
      return "HTTP";
    case FlagGroup::kSecurity:
      return "Security";
    case FlagGroup::kObservability:
      return "Observability";
    case FlagGroup::kLoad:
      return "Load";
    case FlagGroup::kOutput:
      return "Output";
    case FlagGroup::kProcess:
      return "Process";
    case FlagGroup::kGeneral:
      return "General";
  }
  return "";
}

std::string FlagGroupName(FlagGroup group) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(FlagGroupTitle(group)),
                             {{" ", "-"}, {"/", "-"}});
}

std::optional<FlagGroup> FindFlagGroup(absl::string_view name) {
  for (const FlagGroup group : kFlagGroups) {
    if (FlagGroupName(group) == name) return group;
  }
  return std::nullopt;
}

}  // namespace baton
