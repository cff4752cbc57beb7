#include "router/api/named_event.h"

#include "absl/strings/str_cat.h"

namespace baton {

void AppendNamedEvent(const nlohmann::ordered_json& event, std::string& out) {
  using Json = nlohmann::ordered_json;
  absl::StrAppend(&out, "event: ", event.at("type").get_ref<const std::string&>(),
                  "\ndata: ", event.dump(-1, ' ', false, Json::error_handler_t::replace), "\n\n");
}

}  // namespace baton
