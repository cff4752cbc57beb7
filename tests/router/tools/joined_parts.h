// Answers as their parts, joined, however they were cut.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "router/tools/tool_form.h"

namespace baton {

// Parts in a row of one kind and one call as one.
inline std::vector<AnswerPart> Joined(const std::vector<AnswerPart>& parts) {
  std::vector<AnswerPart> joined;
  for (const AnswerPart& part : parts) {
    const bool same = !joined.empty() && part.kind != AnswerPart::Kind::kCall &&
                      joined.back().kind == part.kind && joined.back().call == part.call;
    if (same) {
      joined.back().text += part.text;
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

// What the parser makes of a text that comes in pieces of so many bytes; 0: in one piece.
inline std::vector<AnswerPart> Parsed(AnswerParser& parser, absl::string_view text, size_t piece) {
  std::vector<AnswerPart> parts;
  const auto append = [&](std::vector<AnswerPart> more) {
    for (AnswerPart& part : more) parts.push_back(std::move(part));
  };
  while (!text.empty()) {
    const absl::string_view next = text.substr(0, piece == 0 ? text.size() : piece);
    append(parser.Add(next));
    text.remove_prefix(next.size());
  }
  append(parser.Finish());
  return Joined(parts);
}

// One line: text as it is, reasoning in "(...)", a call as "name#index{...}", divided by " | ".
inline std::string Shown(const std::vector<AnswerPart>& parts) {
  std::string shown;
  for (const AnswerPart& part : parts) {
    if (!shown.empty() && part.kind != AnswerPart::Kind::kArguments) shown += " | ";
    switch (part.kind) {
      case AnswerPart::Kind::kText:
        shown += part.text;
        break;
      case AnswerPart::Kind::kReasoning:
        absl::StrAppend(&shown, "(", part.text, ")");
        break;
      case AnswerPart::Kind::kCall:
        absl::StrAppend(&shown, part.name, "#", part.call);
        break;
      case AnswerPart::Kind::kArguments:
        shown += part.text;
        break;
    }
  }
  return shown;
}

}  // namespace baton
