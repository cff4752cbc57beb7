// GET /v1/models and /v1/models/{id}: the models as OpenAI lists them, with vLLM's max_model_len.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "baton/v1/generation.pb.h"

namespace baton {

// {"object": "list", "data": [...]}
std::string ModelListBody(const v1::ListModelsResponse& models);
// The model `id`, which may contain slashes. NOT_FOUND where it is not served.
absl::StatusOr<std::string> ModelBody(const v1::ListModelsResponse& models, absl::string_view id);

}  // namespace baton
