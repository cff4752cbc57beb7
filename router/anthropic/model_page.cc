#include "router/anthropic/model_page.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "router/api/api_error.h"
#include "router/openai/common_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The index of the model `id`.
absl::StatusOr<int> IndexOf(const v1::ListModelsResponse& models, absl::string_view parameter,
                            const std::string& id) {
  for (int i = 0; i < models.models_size(); ++i) {
    if (models.models(i).id() == id) return i;
  }
  return InvalidParam(parameter,
                      absl::StrCat("is '", LogSafe(id), "', which is not a model of this list"));
}

Json ModelInfo(const v1::ModelCard& card) {
  return {
      {"type", "model"},
      {"id", card.id()},
      {"display_name", card.id()},
      {"created_at", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(card.created()),
                                      absl::UTCTimeZone())}};
}

}  // namespace

absl::StatusOr<ModelPage> ReadModelPage(
    absl::Span<const std::pair<std::string, std::string>> parameters) {
  constexpr uint32_t kMostModels = 1000;
  ModelPage page;
  for (const auto& [name, value] : parameters) {
    if (name == "after_id") page.after_id = value;
    if (name == "before_id") page.before_id = value;
    if (name != "limit") continue;
    if (!absl::SimpleAtoi(value, &page.limit) || page.limit < 1 || page.limit > kMostModels) {
      return InvalidParam("limit", absl::StrCat("must be a number from 1 to ", kMostModels,
                                                ", is '", LogSafe(value), "'"));
    }
  }
  if (page.after_id.has_value() && page.before_id.has_value()) {
    return InvalidParam("before_id", "excludes after_id; send one of them");
  }
  return page;
}

absl::StatusOr<std::string> ModelPageBody(const v1::ListModelsResponse& models,
                                          const ModelPage& page) {
  const int most = static_cast<int>(page.limit);
  int begin = 0, end = models.models_size();
  bool has_more = false;
  if (page.before_id.has_value()) {
    BATON_ASSIGN_OR_RETURN(end, IndexOf(models, "before_id", *page.before_id));
    begin = std::max(end - most, 0);
    has_more = begin > 0;
  } else {
    if (page.after_id.has_value()) {
      BATON_ASSIGN_OR_RETURN(begin, IndexOf(models, "after_id", *page.after_id));
      ++begin;
    }
    end = std::min(end, begin + most);
    has_more = end < models.models_size();
  }
  Json data = Json::array();
  for (int i = begin; i < end; ++i) data.push_back(ModelInfo(models.models(i)));
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return DumpJson(
      {{"data", std::move(data)}, {"has_more", has_more}, {"first_id", first}, {"last_id", last}});
}

std::string ModelInfoBody(const v1::ModelCard& card) { return DumpJson(ModelInfo(card)); }

}  // namespace baton
