#include "router/openai/model_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
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

absl::StatusOr<std::string> ModelBody(const v1::ListModelsResponse& models, absl::string_view id) {
  for (const v1::ModelCard& card : models.models()) {
    if (card.id() == id) return DumpJson(ModelJson(card));
  }
  return absl::NotFoundError(absl::StrCat("model '", LogSafe(id), "' is not served here"));
}

}  // namespace baton
