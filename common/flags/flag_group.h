// Groups of flags: the headings under which --help and the man pages list them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

enum class FlagGroup {
  kModel,
  kConnection,  // addresses that a program listens on or calls
  kRequest,     // the parameters of one answer
  kSampling,    // what a server fills in where a request leaves a sampling parameter open
  kEngine,
  kKvCache,
  kPrefillDecode,
  kSpeculation,
  kHttp,
  kSecurity,
  kObservability,
  kLoad,
  kOutput,
  kProcess,
  kGeneral,  // flags of every program, such as --help, and all flags of small commands
};

// All groups, in the order in which --help lists them.
inline constexpr std::array kFlagGroups = {
    FlagGroup::kModel,  FlagGroup::kConnection, FlagGroup::kRequest,       FlagGroup::kSampling,
    FlagGroup::kEngine, FlagGroup::kKvCache,    FlagGroup::kPrefillDecode, FlagGroup::kSpeculation,
    FlagGroup::kHttp,   FlagGroup::kSecurity,   FlagGroup::kObservability, FlagGroup::kLoad,
    FlagGroup::kOutput, FlagGroup::kProcess,    FlagGroup::kGeneral};

// Returns the heading, such as "KV cache".
absl::string_view FlagGroupTitle(FlagGroup group);

// Returns the name that --help takes: the title in small letters with dashes, such as "kv-cache".
std::string FlagGroupName(FlagGroup group);

// Returns the group that FlagGroupName calls `name`. Empty if there is none.
std::optional<FlagGroup> FindFlagGroup(absl::string_view name);

}  // namespace baton
