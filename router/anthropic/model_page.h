// GET /v1/models and /v1/models/{id} as Anthropic's clients read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "baton/v1/generation.pb.h"

namespace baton {

// Which models of a list are asked for.
struct ModelPage {
  uint32_t limit = 20;                     // the most models of a page
  std::optional<std::string> after_id{};   // the page follows this model
  std::optional<std::string> before_id{};  // the page ends before this model
};
// Reads the names and values of a request's query: `limit` (1 to 1000), and `after_id` or
// `before_id`. Others are ignored. INVALID_ARGUMENT names the parameter.
absl::StatusOr<ModelPage> ReadModelPage(
    absl::Span<const std::pair<std::string, std::string>> parameters);

// {"data": [...], "has_more", "first_id", "last_id"}: models in their order. INVALID_ARGUMENT if
// the page begins or ends at a model that is not in the list.
absl::StatusOr<std::string> ModelPageBody(const v1::ListModelsResponse& models,
                                          const ModelPage& page);
// {"type": "model", "id", "display_name", "created_at"}
std::string ModelInfoBody(const v1::ModelCard& card);

}  // namespace baton
