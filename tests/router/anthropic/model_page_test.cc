#include "router/anthropic/model_page.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "router/api/api_error.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using Parameters = std::vector<std::pair<std::string, std::string>>;

v1::ListModelsResponse Models() {
  v1::ListModelsResponse models;
  for (const char* id : {"a", "b", "c", "d"}) {
    v1::ModelCard& card = *models.add_models();
    card.set_id(id);
    card.set_created(1764489600);
    card.set_max_model_len(128);
  }
  return models;
}

// The page for a query: its models' ids, then first_id, last_id and has_more.
Json Page(const Parameters& parameters) {
  const absl::StatusOr<ModelPage> asked = ReadModelPage(parameters);
  EXPECT_TRUE(asked.ok()) << asked.status();
  const absl::StatusOr<std::string> body = ModelPageBody(Models(), *asked);
  EXPECT_TRUE(body.ok()) << body.status();
  const Json page = Json::parse(*body);
  Json shown = Json::array();
  for (const Json& model : page["data"]) shown.push_back(model["id"]);
  for (const char* field : {"first_id", "last_id", "has_more"}) shown.push_back(page[field]);
  return shown;
}

// What is wrong with a query: the parameter's name and the status.
std::string Wrong(const Parameters& parameters) {
  const absl::StatusOr<ModelPage> asked = ReadModelPage(parameters);
  const ApiError error =
      ApiErrorOf(asked.ok() ? ModelPageBody(Models(), *asked).status() : asked.status());
  return absl::StrCat(error.param, " ", error.status);
}

TEST(ModelPage, AModelIsAsAnthropicsClientsReadIt) {
  EXPECT_EQ(Json::parse(ModelInfoBody(Models().models(0))),
            Json::parse(R"({"type": "model", "id": "a", "display_name": "a",
                            "created_at": "2025-11-30T08:00:00Z"})"));
}

TEST(ModelPage, HasTheModelsThatAreAskedForInTheirOrder) {
  EXPECT_EQ(Page({}), Json({"a", "b", "c", "d", "a", "d", false}));
  EXPECT_EQ(Page({{"limit", "1000"}, {"beta", "true"}}),
            Json({"a", "b", "c", "d", "a", "d", false}));
  EXPECT_EQ(Page({{"limit", "2"}}), Json({"a", "b", "a", "b", true}));
  EXPECT_EQ(Page({{"limit", "2"}, {"after_id", "b"}}), Json({"c", "d", "c", "d", false}));
  EXPECT_EQ(Page({{"limit", "1"}, {"after_id", "b"}}), Json({"c", "c", "c", true}));
  EXPECT_EQ(Page({{"after_id", "d"}}), Json({nullptr, nullptr, false}));
  EXPECT_EQ(Page({{"limit", "2"}, {"before_id", "d"}}), Json({"b", "c", "b", "c", true}));
  EXPECT_EQ(Page({{"before_id", "c"}}), Json({"a", "b", "a", "b", false}));
  EXPECT_EQ(Page({{"before_id", "a"}}), Json({nullptr, nullptr, false}));
}

TEST(ModelPage, AWrongParameterIsNamed) {
  for (const char* limit : {"0", "1001", "-1", "many", "", "99999999999"}) {
    EXPECT_EQ(Wrong({{"limit", limit}}), "limit 400") << limit;
  }
  EXPECT_EQ(Wrong({{"after_id", "x"}}), "after_id 400");
  EXPECT_EQ(Wrong({{"before_id", ""}}), "before_id 400");
  EXPECT_EQ(Wrong({{"after_id", "a"}, {"before_id", "d"}}), "before_id 400");
}

}  // namespace
}  // namespace baton
