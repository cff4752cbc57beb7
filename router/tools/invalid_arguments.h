// Arguments of a call that are no JSON object, if one is wanted.
#pragma once

namespace baton {

// The member of an object under which they stand as text, as Anthropic's documentation of
// fine-grained tool streaming has it.
inline constexpr char kInvalidArguments[] = "INVALID_JSON";

}  // namespace baton
