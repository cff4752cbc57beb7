#include "common/grammar/schema_keywords.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

constexpr auto kEnforced = KeywordSupport::kEnforced;
constexpr auto kAnnotation = KeywordSupport::kAnnotation;
constexpr auto kRefused = KeywordSupport::kRefused;
constexpr char kNoGrammar[] = "no grammar can say it; leave it out and check the answer";
constexpr char kNameEachKey[] = "name each key in properties";
constexpr char kOnlyPointers[] = "refer to parts of the schema with $ref and a pointer";
constexpr char kExtension[] = "x-";
constexpr char kNoContent[] = "it does not change which strings are valid; leave it out";

constexpr SchemaKeyword kKeywords[] = {
    {"$comment", kAnnotation, ""},
    {"$schema", kAnnotation, ""},
    {"$id", kAnnotation, ""},
    {"title", kAnnotation, ""},
    {"description", kAnnotation, ""},
    {"default", kAnnotation, ""},
    {"examples", kAnnotation, ""},
    {"deprecated", kAnnotation, ""},
    {"readOnly", kAnnotation, ""},
    {"writeOnly", kAnnotation, ""},
    {"id", kAnnotation, ""},             // the name of $id in draft 4
    {"example", kAnnotation, ""},        // a value, in OpenAPI
    {"discriminator", kAnnotation, ""},  // OpenAPI: the property that tells the schemas apart
    {kExtension, kAnnotation, ""},       // and every name that begins with it

    {"type", kEnforced, ""},
    {"const", kEnforced, ""},
    {"enum", kEnforced, ""},
    {"anyOf", kEnforced, ""},
    {"allOf", kEnforced, ""},
    {"oneOf", kEnforced, ""},
    {"$ref", kEnforced, ""},
    {"$defs", kEnforced, ""},
    {"definitions", kEnforced, ""},
    {"properties", kEnforced, "object"},
    {"required", kEnforced, "object"},
    {"additionalProperties", kEnforced, "object"},
    {"minProperties", kEnforced, "object"},
    {"maxProperties", kEnforced, "object"},
    {"items", kEnforced, "array"},
    {"prefixItems", kEnforced, "array"},
    {"additionalItems", kEnforced, "array"},
    {"minItems", kEnforced, "array"},
    {"maxItems", kEnforced, "array"},
    {"pattern", kEnforced, "string"},
    {"format", kEnforced, "string integer number"},
    {"minLength", kEnforced, "string"},
    {"maxLength", kEnforced, "string"},
    {"minimum", kEnforced, "integer number"},
    {"maximum", kEnforced, "integer number"},
    {"exclusiveMinimum", kEnforced, "integer number"},
    {"exclusiveMaximum", kEnforced, "integer number"},
    {"multipleOf", kEnforced, "integer"},

    {"not", kRefused, kNoGrammar},
    {"if", kRefused, "use anyOf"},
    {"then", kRefused, "use anyOf"},
    {"else", kRefused, "use anyOf"},
    {"dependentRequired", kRefused, "use anyOf"},
    {"dependentSchemas", kRefused, "use anyOf"},
    {"dependencies", kRefused, "use anyOf"},
    {"uniqueItems", kRefused, kNoGrammar},
    {"contains", kRefused, kNoGrammar},
    {"minContains", kRefused, kNoGrammar},
    {"maxContains", kRefused, kNoGrammar},
    {"unevaluatedItems", kRefused, "use items"},
    {"unevaluatedProperties", kRefused, "use additionalProperties"},
    {"patternProperties", kRefused, kNameEachKey},
    {"propertyNames", kRefused, kNameEachKey},
    {"$anchor", kRefused, kOnlyPointers},
    {"$dynamicAnchor", kRefused, kOnlyPointers},
    {"$dynamicRef", kRefused, kOnlyPointers},
    {"$recursiveAnchor", kRefused, kOnlyPointers},
    {"$recursiveRef", kRefused, kOnlyPointers},
    {"$vocabulary", kRefused, "leave it out"},
    {"contentEncoding", kRefused, kNoContent},
    {"contentMediaType", kRefused, kNoContent},
    {"contentSchema", kRefused, kNoContent},
};

}  // namespace

absl::Span<const SchemaKeyword> SchemaKeywords() { return kKeywords; }

const SchemaKeyword* FindSchemaKeyword(absl::string_view name) {
  if (absl::StartsWith(name, kExtension)) name = kExtension;
  for (const SchemaKeyword& keyword : kKeywords) {
    if (name == keyword.name) return &keyword;
  }
  return nullptr;
}

bool IsAbout(const SchemaKeyword& keyword, absl::string_view type) {
  for (const absl::string_view about : absl::StrSplit(keyword.note, ' ')) {
    if (about == type) return true;
  }
  return false;
}

}  // namespace baton
