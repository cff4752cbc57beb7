// GET /v1/models and /v1/models/{id}: the models as OpenAI lists them, with vLLM's max_model_len.
#pragma once

#include <string>

#include "baton/v1/generation.pb.h"

namespace baton {

// {"object": "list", "data": [...]}
std::string ModelListBody(const v1::ListModelsResponse& models);
// One of them.
std::string ModelBody(const v1::ModelCard& card);

}  // namespace baton
