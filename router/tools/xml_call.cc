#include "router/tools/xml_call.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kParameter = "<parameter=";
constexpr absl::string_view kValueEnd = "</parameter>";
constexpr absl::string_view kCallEnd = "</function>";

bool IsString(const Json& parameters, const std::string& key) {
  if (!parameters.is_object()) return false;
  const auto properties = parameters.find("properties");
  if (properties == parameters.end() || !properties->is_object()) return false;
  const auto schema = properties->find(key);
  return schema != properties->end() && schema->is_object() && schema->contains("type") &&
         (*schema)["type"] == "string";
}

// The value as JSON.
std::string XmlValueJson(absl::string_view value, bool is_string) {
  absl::ConsumePrefix(&value, "\n");
  absl::ConsumeSuffix(&value, "\n");
  const absl::string_view bare = absl::StripAsciiWhitespace(value);
  if (!is_string && Json::accept(bare.begin(), bare.end())) return std::string(bare);
  return Json(std::string(value)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Fit XmlCallScanner::Scan(absl::string_view text) {
  while (true) {
    if (in_value_) {
      const size_t end = text.find(kValueEnd, at_);
      if (end == absl::string_view::npos) {
        if (text.size() - at_ >= kValueEnd.size()) at_ = text.size() - kValueEnd.size() + 1;
        return Fit::kMore;
      }
      at_ = end + kValueEnd.size();
      in_value_ = false;
    }
    at_ = text.find('<', at_ == 0 ? 1 : at_);
    if (at_ == absl::string_view::npos) {
      at_ = text.size();
      return Fit::kMore;
    }
    const absl::string_view rest = text.substr(at_);
    if (absl::StartsWith(rest, kCallEnd)) {
      at_ += kCallEnd.size();
      return Fit::kYes;
    }
    if (absl::StartsWith(rest, kParameter)) {
      at_ += kParameter.size();
      in_value_ = true;
    } else {
      const bool may_fit = absl::StartsWith(kCallEnd, rest) || absl::StartsWith(kParameter, rest);
      return may_fit ? Fit::kMore : Fit::kNo;
    }
  }
}

absl::string_view XmlCallName(absl::string_view text) {
  absl::ConsumePrefix(&text, kXmlCallBegin);
  return absl::StripAsciiWhitespace(text.substr(0, text.find('>')));
}

std::optional<WholeCall> ReadXmlCall(absl::string_view text, const Json& parameters) {
  WholeCall call{.name = std::string(XmlCallName(text)), .arguments = "{"};
  if (!IsToolName(call.name)) return std::nullopt;
  text.remove_prefix(text.find('>') + 1);
  while (true) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (absl::StartsWith(text, kCallEnd)) break;
    if (!absl::ConsumePrefix(&text, kParameter)) return std::nullopt;
    const size_t key_end = text.find('>');
    const size_t value_end = text.find(kValueEnd);
    if (key_end == absl::string_view::npos || key_end > value_end) return std::nullopt;
    const std::string key(absl::StripAsciiWhitespace(text.substr(0, key_end)));
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    call.arguments +=
        XmlValueJson(text.substr(key_end + 1, value_end - key_end - 1), IsString(parameters, key));
    text.remove_prefix(value_end + kValueEnd.size());
  }
  call.arguments += "}";
  return call;
}

}  // namespace baton
