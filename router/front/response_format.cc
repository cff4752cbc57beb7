#include "router/front/response_format.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

#include "common/rpc/status.h"
#include "router/request/errors.h"

namespace baton {

absl::StatusOr<GrammarSpec> GrammarSpecOf(const v1::ResponseFormat& format) {
  GrammarSpec spec;
  switch (format.form_case()) {
    case v1::ResponseFormat::kJsonObject:
      spec.kind = GrammarKind::kJsonObject;
      break;
    case v1::ResponseFormat::kJsonSchema:
      spec.kind = GrammarKind::kJsonSchema;
      spec.text = format.json_schema();
      break;
    case v1::ResponseFormat::kRegex:
      spec.kind = GrammarKind::kRegex;
      spec.text = format.regex();
      break;
    case v1::ResponseFormat::kGrammar:
      spec.kind = GrammarKind::kGrammar;
      spec.text = format.grammar();
      break;
    case v1::ResponseFormat::kChoice:
      spec.kind = GrammarKind::kChoice;
      spec.choices.assign(format.choice().texts().begin(), format.choice().texts().end());
      break;
    case v1::ResponseFormat::kStructuralTags:
      spec.kind = GrammarKind::kTags;
      for (const v1::StructuralTag& tag : format.structural_tags().tags()) {
        spec.tags.push_back({.begin = tag.begin(), .schema = tag.schema(), .end = tag.end()});
      }
      spec.tags_begin = format.structural_tags().begin();
      spec.tags_end = format.structural_tags().end();
      spec.tags_separator = format.structural_tags().separator();
      spec.several = format.structural_tags().several();
      spec.parse_special = format.structural_tags().parse_special();
      break;
    case v1::ResponseFormat::FORM_NOT_SET:
      return InvalidField(
          "response_format",
          "has no form; set one of json_object, json_schema, regex, grammar, choice "
          "and structural_tags, or leave it out");
  }
  if (const absl::Status status = ValidateGrammarSpec(spec); !status.ok()) {
    return GrammarFault(spec.kind, status);
  }
  return spec;
}

absl::Status GrammarFault(GrammarKind kind, const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) {
    const absl::string_view field = GrammarField(kind);
    absl::string_view what = absl::StripPrefix(status.message(), field);
    if (!absl::ConsumePrefix(&what, ": ")) absl::ConsumePrefix(&what, " ");
    return InvalidField(field, what);
  }
  if (absl::IsResourceExhausted(status)) {
    return WithRetryInfo(
        WithErrorInfo(status, {.reason = "GRAMMAR_NOT_COMPILED", .stage = kStageQueue}),
        kRetryDelay);
  }
  return status;
}

absl::Status NamingTools(const v1::GenerateRequest& request, absl::Status status) {
  if (request.has_response_format()) return status;
  for (const FieldViolation& violation : FieldViolations(status)) {
    if (absl::StartsWith(violation.field, "response_format")) {
      return InvalidField("chat.tools", violation.description);
    }
  }
  return status;
}

}  // namespace baton
