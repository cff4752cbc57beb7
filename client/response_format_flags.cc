#include "client/response_format_flags.h"

#include <iterator>

#include "absl/strings/str_cat.h"

#include "client/utf8_check.h"
#include "common/base/plain_text.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/grammar/grammar_spec.h"

namespace baton {
namespace {

constexpr const char* kFlags[] = {"json-object", "json-schema", "regex", "grammar", "choice"};

absl::Status CheckText(const std::string& text) {
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  return CheckUtf8(text);
}

// Fills the form that the flag `name`, which was given, asks for.
absl::Status Fill(const std::string& name, const ResponseFormatFlags& flags,
                  v1::ResponseFormat& format) {
  if (name == "json-object") {
    if (flags.json_object) format.mutable_json_object();
    return absl::OkStatus();
  }
  if (name == "choice") {
    for (const std::string& choice : flags.choices) {
      BATON_RETURN_IF_ERROR(CheckText(choice));
      format.mutable_choice()->add_texts(choice);
    }
    return absl::OkStatus();
  }
  if (name == "regex") {
    format.set_regex(flags.regex);
    return CheckText(flags.regex);
  }
  const bool schema = name == "json-schema";
  BATON_ASSIGN_OR_RETURN(
      const std::string text,
      ReadSmallFileOrPipe(schema ? flags.json_schema : flags.grammar, kMaxGrammarSpecBytes));
  if (schema) {
    format.set_json_schema(text);
  } else {
    format.set_grammar(WithUnixLineEnds(text));
  }
  return CheckText(text);
}

}  // namespace

void AddResponseFormatFlags(FlagSet& flags, ResponseFormatFlags& format) {
  flags.SetGroup(FlagGroup::kRequest);
  flags.AddBool("json-object", format.json_object, "Force the answer to be a JSON object");
  flags.AddString("json-schema=FILE", format.json_schema,
                  "Force the answer to be JSON of the schema in this file");
  flags.AddString("regex=REGEX", format.regex,
                  "Force the whole answer to match this regular expression");
  flags.AddString(
      "grammar=FILE", format.grammar,
      "Force the answer to match the EBNF grammar in this file, starting at its rule `root`");
  flags.AddTexts("choice=TEXT", format.choices,
                 "Force the answer to be one of the given texts; repeat the flag for each text");
}

absl::StatusOr<v1::ResponseFormat> ReadResponseFormat(const FlagSet& flags,
                                                      const ResponseFormatFlags& format) {
  v1::ResponseFormat form;
  for (const char* const* name = std::begin(kFlags); name != std::end(kFlags); ++name) {
    for (const char* const* other = name + 1; other != std::end(kFlags); ++other) {
      BATON_RETURN_IF_ERROR(flags.CheckNotBoth(*name, *other));
    }
    if (!flags.Given(*name)) continue;
    if (const absl::Status status = Fill(*name, format, form); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(flags.Label(*name), ": ", status.message()));
    }
  }
  return form;
}

}  // namespace baton
