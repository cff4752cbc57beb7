// The regular expressions of tokenizers, which are written for Oniguruma, in PCRE2's dialect.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

inline constexpr size_t kMaxExpressionBytes = 16384;

// An expression of PCRE2 (with PCRE2_UTF and PCRE2_MULTILINE) that matches what `expression`
// matches in Oniguruma of Unicode 16 with Ruby's syntax. UNIMPLEMENTED quotes what is not known to
// mean the same in both: classes in classes, back references, options other than (?i:...), escapes
// other than those of characters, of \s, \S, \d, \D and of the categories \p{...} and \P{...}.
absl::StatusOr<std::string> PcreFromOniguruma(absl::string_view expression);

// An expression that matches `text` itself.
std::string QuotedExpression(absl::string_view text);

}  // namespace baton
