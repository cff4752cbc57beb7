#include "router/api/renamed_params.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {

ApiError WithRenamedParam(ApiError error, absl::Span<const RenamedParam> names) {
  if (error.param_is_clients) return error;
  for (const RenamedParam& name : names) {
    const bool names_it = error.param == name.name ||
                          absl::StartsWith(error.param, absl::StrCat(name.name, "[")) ||
                          absl::StartsWith(error.param, absl::StrCat(name.name, "."));
    if (!names_it) continue;
    if (absl::StartsWith(error.message, error.param)) {
      error.message.replace(0, error.param.size(), name.renamed);
    }
    error.param = name.renamed;
    break;
  }
  return error;
}

}  // namespace baton
