#include "router/tools/call_head.h"

#include "common/json/json_tree.h"
#include "router/tools/json_scanner.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

bool IsArgumentsKey(absl::string_view key) { return key == "arguments" || key == "parameters"; }

// The text of the member of an object that is well-formed JSON.
absl::string_view MemberText(absl::string_view object, absl::string_view wanted) {
  size_t depth = 0;
  std::string key;
  for (size_t at = 0; at < object.size(); ++at) {
    const char byte = object[at];
    if (byte == '{' || byte == '[') ++depth;
    if (byte == '}' || byte == ']') --depth;
    if (byte == '"') {
      const size_t begin = at++;
      while (object[at] != '"') at += object[at] == '\\' ? size_t{2} : size_t{1};
      key = std::string(object.substr(begin + 1, at - begin - 1));
    }
    if (byte != ':' || depth != 1 || key != wanted) continue;
    ++at;
    while (IsJsonSpace(object[at])) ++at;
    JsonScanner scanner;
    for (size_t end = at; end < object.size(); ++end) {
      const JsonScanner::Result result = scanner.Push(object[end]);
      if (result == JsonScanner::Result::kDone) return object.substr(at, end + 1 - at);
      if (result == JsonScanner::Result::kBad) return "";
    }
  }
  return "";
}

}  // namespace

CallHead ReadObjectHead(absl::string_view text) {
  TextReader reader(text);
  reader.SkipSpace();
  CallHead head{.begin = reader.at()};
  if (head.fit = reader.Literal("{"); head.fit != Fit::kYes) return head;
  const auto whole = [&] {
    head.is_whole = true;
    return head;
  };
  for (bool first = true;; first = false) {
    reader.SkipSpace();
    if (!first) {
      if (!head.name.empty() && reader.Literal("}") == Fit::kYes) return whole();
      if (head.fit = reader.Literal(","); head.fit != Fit::kYes) return head;
      reader.SkipSpace();
    }
    absl::string_view key;
    if (head.fit = reader.QuotedText(key); head.fit != Fit::kYes) return head;
    if (key == "function" || (IsArgumentsKey(key) && head.name.empty())) return whole();
    reader.SkipSpace();
    if (head.fit = reader.Literal(":"); head.fit != Fit::kYes) return head;
    reader.SkipSpace();
    if (IsArgumentsKey(key)) {
      if (reader.rest().empty()) {
        head.fit = Fit::kMore;
        return head;
      }
      if (reader.rest().front() != '{') return whole();
      head.begin = reader.at();
      return head;
    }
    absl::string_view value;
    head.fit = key == "name" || key == "type" || key == "id" ? reader.QuotedText(value) : Fit::kNo;
    if (head.fit != Fit::kYes) return head;
    if (key != "name") continue;
    head.name = std::string(value);
    if (!IsToolName(value)) head.fit = Fit::kNo;
    if (head.fit == Fit::kNo) return head;
  }
}

CallHead ReadNamedHead(absl::string_view text) {
  TextReader reader(text);
  reader.SkipSpace();
  CallHead head;
  absl::string_view name;
  if (head.fit = reader.Name(name); head.fit != Fit::kYes) return head;
  head.name = std::string(name);
  if (head.fit = reader.Literal("[CALL_ID]"); head.fit == Fit::kMore) return head;
  if (head.fit == Fit::kYes) {
    absl::string_view id;
    if (head.fit = reader.Name(id); head.fit != Fit::kYes) return head;
  }
  if (head.fit = reader.Literal("[ARGS]"); head.fit != Fit::kYes) return head;
  reader.SkipSpace();
  head.begin = reader.at();
  head.fit = reader.Literal("{");
  return head;
}

Fit ReadObjectRest(absl::string_view text, size_t& end) {
  TextReader reader(text);
  while (true) {
    reader.SkipSpace();
    if (reader.Literal("}") == Fit::kYes) {
      end = reader.at();
      return Fit::kYes;
    }
    absl::string_view ignored;
    if (const Fit fit = reader.Literal(","); fit != Fit::kYes) return fit;
    reader.SkipSpace();
    if (const Fit fit = reader.QuotedText(ignored); fit != Fit::kYes) return fit;
    reader.SkipSpace();
    if (const Fit fit = reader.Literal(":"); fit != Fit::kYes) return fit;
    reader.SkipSpace();
    if (const Fit fit = reader.QuotedText(ignored); fit != Fit::kYes) return fit;
  }
}

Fit ReadTokens(absl::string_view text, const std::vector<std::string>& tokens, size_t& end) {
  TextReader reader(text);
  for (const std::string& token : tokens) {
    reader.SkipSpace();
    if (const Fit fit = reader.Literal(token); fit != Fit::kYes) return fit;
  }
  end = reader.at();
  return Fit::kYes;
}

std::optional<WholeCall> ReadWholeCall(absl::string_view object) {
  const Json json = ParseOrderedJson(object);
  if (!json.is_object()) return std::nullopt;
  if (const auto inner = json.find("function"); inner != json.end() && inner->is_object()) {
    return ReadWholeCall(MemberText(object, "function"));
  }
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  WholeCall call{.name = name->get<std::string>(), .arguments = "{}"};
  if (!IsToolName(call.name)) return std::nullopt;
  const bool has_arguments = json.contains("arguments");
  const absl::string_view key = has_arguments ? "arguments" : "parameters";
  const auto arguments = json.find(std::string(key));
  if (arguments == json.end() || arguments->is_null()) return call;
  if (arguments->is_object()) {
    call.arguments = std::string(MemberText(object, key));
    return call.arguments.empty() ? std::nullopt : std::optional(call);
  }
  if (!arguments->is_string()) return std::nullopt;
  call.arguments = arguments->get<std::string>();
  const Json inside = ParseOrderedJson(call.arguments);
  return inside.is_object() ? std::optional(call) : std::nullopt;
}

}  // namespace baton
