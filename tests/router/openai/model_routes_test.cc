#include "router/openai/model_routes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

v1::ListModelsResponse TwoModels() {
  v1::ListModelsResponse models;
  v1::ModelCard& card = *models.add_models();
  card.set_id("org/a");
  card.set_root("a.gguf");
  card.set_created(17);
  card.set_max_model_len(128);
  card.set_dtype("Q4_1");
  card.set_kv_cache_dtype("f16");
  card.set_block_size(16);
  models.add_models()->set_id("b");
  return models;
}

TEST(ModelRoutes, AListHasEveryModel) {
  const Json body = Json::parse(ModelListBody(TwoModels()));
  EXPECT_EQ(body["object"], "list");
  ASSERT_EQ(body["data"].size(), 2u);
  EXPECT_EQ(body["data"][0], Json::parse(R"({"id": "org/a", "object": "model", "created": 17,
      "owned_by": "baton", "root": "a.gguf", "parent": null, "max_model_len": 128,
      "dtype": "Q4_1", "kv_cache_dtype": "f16", "block_size": 16})"));
}

TEST(ModelRoutes, OneModelIsAsInTheList) {
  EXPECT_EQ(Json::parse(ModelBody(TwoModels().models(0))),
            Json::parse(ModelListBody(TwoModels()))["data"][0]);
}

}  // namespace
}  // namespace baton
