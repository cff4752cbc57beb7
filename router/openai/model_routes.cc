#include "router/openai/model_routes.h"

#include <utility>

#include "router/openai/common_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json ModelJson(const v1::ModelCard& card) {
  return {{"id", card.id()},
          {"object", "model"},
          {"created", card.created()},
          {"owned_by", "baton"},
          {"root", card.root()},
          {"parent", nullptr},
          {"max_model_len", card.max_model_len()},
          {"dtype", card.dtype()},
          {"kv_cache_dtype", card.kv_cache_dtype()},
          {"block_size", card.block_size()}};
}

}  // namespace

std::string ModelListBody(const v1::ListModelsResponse& models) {
  Json data = Json::array();
  for (const v1::ModelCard& card : models.models()) data.push_back(ModelJson(card));
  return DumpJson({{"object", "list"}, {"data", std::move(data)}});
}

std::string ModelBody(const v1::ModelCard& card) { return DumpJson(ModelJson(card)); }

}  // namespace baton
