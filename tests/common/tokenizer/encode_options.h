// Options under which a text's own tokens come back, without those that a model puts around it.
#pragma once

#include "common/tokenizer/tokenizer.h"

namespace baton {

inline constexpr EncodeOptions kPlain = {.add_special_tokens = false, .parse_special = false};
inline constexpr EncodeOptions kParse = {.add_special_tokens = false, .parse_special = true};

}  // namespace baton
