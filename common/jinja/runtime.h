// The runtime of chat templates, which renders a parsed template.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"

#include "common/jinja/ast.h"
#include "common/jinja/text.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// Renders `block` and returns the text that it writes. Errors name the template's line; the text of
// raise_exception becomes an INVALID_ARGUMENT, unchanged. REQUIRES: the values of `variables`
// belong to `workspace`. `today`: as ChatTemplateOptions has it.
absl::StatusOr<Text> Run(const Block& block, const Variables& variables, Workspace& workspace,
                         const std::optional<absl::CivilDay>& today = std::nullopt);

}  // namespace baton::jinja
