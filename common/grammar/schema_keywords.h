// The keywords of JSON schemas (draft 2020-12 and before), and what Baton does with each.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

enum class KeywordSupport {
  kEnforced,    // every answer matches it, if schema_check.h accepts it
  kAnnotation,  // it says nothing about what is valid, and is left out
  kRefused,     // no answer could be held to it, so that a schema with it is refused
};

struct SchemaKeyword {
  const char* name;
  KeywordSupport support;
  // Enforced: the types of values it is about, such as "integer number"; "" if it stands without a
  // type. Refused: the remedy.
  const char* note;
};

// All known keywords. What is not among them is refused too.
absl::Span<const SchemaKeyword> SchemaKeywords();

// nullptr if `name` is none.
const SchemaKeyword* FindSchemaKeyword(absl::string_view name);

// Whether the keyword is about values of `type`.
bool IsAbout(const SchemaKeyword& keyword, absl::string_view type);

}  // namespace baton
