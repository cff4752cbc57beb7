// Fields that an API calls otherwise than OpenAI's older ones.
#pragma once

#include "absl/types/span.h"

#include "router/api/api_error.h"

namespace baton {

struct RenamedParam {
  const char* name;     // as ParamOfField has it; what follows it ("[0].content") is cut
  const char* renamed;  // as the API's clients know it
};

// The error with the API's own name of its field, in the message too. Unchanged where the client
// sent the field by that name.
ApiError WithRenamedParam(ApiError error, absl::Span<const RenamedParam> names);

}  // namespace baton
