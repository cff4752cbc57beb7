#include "client/response_format_flags.h"

#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "client/utf8_check.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "common/grammar/grammar_spec.h"

namespace baton {
namespace {

constexpr const char* kFlags[] = {"json-object", "json-schema", "regex", "grammar", "choice"};

FlagSet::Value Text(std::function<void(const std::string&)> take) {
  return {.set = [take = std::move(take)](const std::string& text) -> absl::Status {
    if (text.empty()) return absl::InvalidArgumentError("is empty");
    BATON_RETURN_IF_ERROR(CheckUtf8(text));
    take(text);
    return absl::OkStatus();
  }};
}

// The value names a file, whose content is taken.
FlagSet::Value TextFile(std::function<void(const std::string&)> take) {
  return {.set = [text = Text(std::move(take))](const std::string& path) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(path, kMaxGrammarSpecBytes));
    return text.set(content);
  }};
}

}  // namespace

void AddResponseFormatFlags(FlagSet& flags, v1::ResponseFormat& format) {
  v1::ResponseFormat* const f = &format;
  flags.AddBool(
      "json-object",
      [f](bool value) {
        if (value) {
          f->mutable_json_object();
        } else if (f->has_json_object()) {
          f->clear_json_object();
        }
      },
      "the answer is a JSON object");
  flags.Add("json-schema", "file of a JSON schema that the answer, JSON, obeys",
            TextFile([f](const std::string& text) { f->set_json_schema(text); }));
  flags.Add("regex", "regular expression that the whole answer matches",
            Text([f](const std::string& text) { f->set_regex(text); }));
  flags.Add("grammar", "file of a grammar in EBNF, with a rule \"root\", that the answer follows",
            TextFile([f](const std::string& text) { f->set_grammar(text); }));
  FlagSet::Value choice =
      Text([f](const std::string& text) { f->mutable_choice()->add_texts(text); });
  choice.clear = [f] {
    if (f->has_choice()) f->clear_choice();
  };
  choice.split_at_commas = false;
  flags.Add("choice", "a text that the answer may be; repeated for each", std::move(choice));
}

absl::Status CheckOneResponseFormat(const FlagSet& flags) {
  for (const char* const* first = std::begin(kFlags); first != std::end(kFlags); ++first) {
    for (const char* const* other = first + 1; other != std::end(kFlags); ++other) {
      BATON_RETURN_IF_ERROR(flags.CheckNotBoth(*first, *other));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
