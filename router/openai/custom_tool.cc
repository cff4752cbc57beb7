#include "router/openai/custom_tool.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "router/openai/common_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Whether `bounds`, of a repetition, are numbers that the grammar library takes.
bool AreBounds(absl::string_view bounds) {
  constexpr int kMaxRepetitions = 128;
  const size_t comma = std::min(bounds.find(','), bounds.size());
  const absl::string_view most = bounds.substr(std::min(comma + 1, bounds.size()));
  int count = 0;
  if (!absl::SimpleAtoi(bounds.substr(0, comma), &count) || count > kMaxRepetitions) return false;
  return most.empty() || (absl::SimpleAtoi(most, &count) && count <= kMaxRepetitions);
}

// Whether an escape is one of a class or of punctuation that JSON does not escape.
bool IsPlainEscape(absl::string_view escaped) {
  if (escaped.empty()) return false;
  return escaped[0] == 'd' || escaped[0] == 'w' ||
         (absl::ascii_ispunct(static_cast<unsigned char>(escaped[0])) && escaped[0] != '\\' &&
          escaped[0] != '"');
}

// Whether the grammar library can hold a JSON string to the expression: printable ASCII without
// quotes, assertions but at the ends, back references, escapes that stand for what JSON escapes,
// and long repetitions.
bool CanBePattern(absl::string_view expression) {
  constexpr size_t kMaxBytes = 1024;
  if (expression.empty() || expression.size() > kMaxBytes) return false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char byte = expression[i];
    const absl::string_view rest = expression.substr(i + 1);
    if (byte < ' ' || byte > '~' || byte == '"') return false;
    if (byte == '(' && absl::StartsWith(rest, "?") && !absl::StartsWith(rest, "?:")) return false;
    if (byte == '[' && absl::StartsWith(rest, "[:")) return false;  // as in [[:alpha:]]
    if (byte == '^' && i > 0 && expression[i - 1] != '[') return false;
    if (byte == '$' && !rest.empty()) return false;
    if (byte == '{' && !AreBounds(rest.substr(0, rest.find('}')))) return false;
    if (byte != '\\') continue;
    if (!IsPlainEscape(rest)) return false;
    ++i;
  }
  return true;
}

// Reads {"syntax", "definition"} into the schema of the text.
void ReadGrammar(JsonFields& grammar, Json& input) {
  const std::string syntax = grammar.String("syntax").value_or("");
  if (syntax != "lark" && syntax != "regex") return grammar.FailUnserved("syntax", "lark or regex");
  const std::string definition = grammar.RequiredString("definition");
  if (syntax == "regex" && CanBePattern(definition)) {
    input["pattern"] = definition;
  } else {
    input["description"] =
        absl::StrCat(syntax == "regex" ? "Text that this regular expression matches:\n"
                                       : "Text that this Lark grammar describes:\n",
                     definition);
  }
}

void ReadFormat(JsonFields& format, Json& input) {
  const std::string type = format.String("type").value_or("");
  if (type == "text") return;
  if (type != "grammar") return format.FailUnserved("type", "text or grammar");
  const Json* const inside = format.Object("grammar");
  if (inside == nullptr) return ReadGrammar(format, input);
  JsonFields grammar(*inside, format.PathOf("grammar"));
  ReadGrammar(grammar, input);
  format.Adopt(grammar.status());
}

}  // namespace

std::string ReadCustomParameters(JsonFields& custom) {
  Json input = {{"type", "string"}};
  if (const Json* const object = custom.Object("format")) {
    JsonFields format(*object, custom.PathOf("format"));
    ReadFormat(format, input);
    custom.Adopt(format.status());
  }
  return DumpJson({{"type", "object"},
                   {"properties", {{"input", std::move(input)}}},
                   {"required", Json::array({"input"})},
                   {"additionalProperties", false}});
}

}  // namespace baton
