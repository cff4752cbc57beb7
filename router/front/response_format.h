// The form that a client asks for, as a grammar, and errors about it as clients read them. All
// functions are pure.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "baton/v1/generation.pb.h"
#include "common/grammar/grammar_spec.h"

namespace baton {

// INVALID_ARGUMENT names the field of the request: no form, nothing in it, too much, or not UTF-8.
// The contents of a schema, an expression or a grammar are checked by the compiler.
absl::StatusOr<GrammarSpec> GrammarSpecOf(const v1::ResponseFormat& format);

// Returns the client's error for an error of GrammarCompiler::Compile: INVALID_ARGUMENT with the
// field as a violation, RESOURCE_EXHAUSTED with RetryInfo, others unchanged.
absl::Status GrammarFault(GrammarKind kind, const absl::Status& status);

// The same error about a request without response_format, whose form follows from chat.tools: it
// names them.
absl::Status NamingTools(const v1::GenerateRequest& request, absl::Status status);

}  // namespace baton
