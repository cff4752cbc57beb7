// The methods of strings and dicts, those of Python that chat templates call.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/builtins.h"

namespace baton::jinja {
namespace {

absl::StatusOr<const Text*> StringSubject(Workspace& workspace, const Value& subject,
                                          absl::string_view method) {
  if (subject.text() != nullptr) return ToText(workspace, subject);
  return absl::InvalidArgumentError(
      absl::StrCat("a ", Describe(subject), " has no ", method, "()"));
}

absl::StatusOr<const Dict*> DictSubject(const Value& subject, absl::string_view method) {
  if (const Dict* dict = subject.dict()) return dict;
  return absl::InvalidArgumentError(
      absl::StrCat("a ", Describe(subject), " has no ", method, "()"));
}

template <bool left, bool right>
absl::StatusOr<Value> Strip(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_RETURN_IF_ERROR(StringSubject(workspace, subject, "strip").status());
  return StripText(workspace, subject, arguments[0], left, right);
}

template <LetterCase letter_case>
absl::StatusOr<Value> StringCase(Workspace& workspace, const Value& subject, Arguments) {
  BATON_RETURN_IF_ERROR(StringSubject(workspace, subject, "upper/lower").status());
  return ChangeCase(workspace, subject, letter_case);
}

absl::StatusOr<Value> StringReplace(Workspace& workspace, const Value& subject,
                                    Arguments arguments) {
  BATON_RETURN_IF_ERROR(StringSubject(workspace, subject, "replace").status());
  if (arguments[0]->text() == nullptr || arguments[1]->text() == nullptr) {
    return absl::InvalidArgumentError("replace() takes two strings");
  }
  return ReplaceText(workspace, subject, *arguments[0], *arguments[1], arguments[2]);
}

// The method split() without a separator, which splits at white space.
absl::StatusOr<Value> SplitAtSpace(Workspace& workspace, const Text& text, int64_t limit) {
  const absl::string_view bytes = text.bytes();
  ListBuilder parts(workspace, {.trusted_size = text.trusted()});
  size_t at = SkipSpace(bytes, 0, bytes.size());
  while (at < bytes.size()) {
    size_t end = at;
    if (limit-- == 0) {
      end = bytes.size();
    } else {
      while (end < bytes.size() && SpaceSize(bytes, end) == 0) {
        BATON_RETURN_IF_ERROR(workspace.StepByte());
        end += CharacterSize(bytes, end);
      }
    }
    BATON_ASSIGN_OR_RETURN(const Value part, workspace.NewSlice(text, at, end));
    BATON_RETURN_IF_ERROR(parts.Add(part));
    at = SkipSpace(bytes, end, bytes.size());
  }
  return parts.Finish();
}

absl::StatusOr<Value> Split(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* text, StringSubject(workspace, subject, "split"));
  int64_t limit = -1;
  if (arguments[1] != nullptr) {
    if (!arguments[1]->IsInteger())
      return absl::InvalidArgumentError("the count of split() must be an integer");
    limit = arguments[1]->Integer();
  }
  if (arguments[0] == nullptr || arguments[0]->Is<None>()) {
    return SplitAtSpace(workspace, *text, limit);
  }
  const Text* separator = arguments[0]->text();
  if (separator == nullptr || separator->empty()) {
    return absl::InvalidArgumentError(
        "the separator of split() must be a string that is not empty");
  }
  ListBuilder parts(workspace, {.trusted_size = text->trusted() && separator->trusted()});
  size_t at = 0;
  while (true) {
    size_t found = absl::string_view::npos;
    if (limit-- != 0) {
      BATON_ASSIGN_OR_RETURN(found, FindBytes(workspace, text->bytes(), separator->bytes(), at));
    }
    const size_t end = found == absl::string_view::npos ? text->size() : found;
    BATON_ASSIGN_OR_RETURN(const Value part, workspace.NewSlice(*text, at, end));
    BATON_RETURN_IF_ERROR(parts.Add(part));
    if (found == absl::string_view::npos) return parts.Finish();
    at = found + separator->size();
  }
}

// The methods startswith() and endswith(), which take a string or a list of strings.
template <bool at_start>
absl::StatusOr<Value> HasAffix(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* text,
                         StringSubject(workspace, subject, "startswith/endswith"));
  const List* list = arguments[0]->list();
  const bool several = list != nullptr && !list->generator;
  const absl::Span<const Value> affixes =
      several ? absl::MakeConstSpan(list->items) : absl::MakeConstSpan(arguments[0], 1);
  bool found = false;
  bool trusted = text->trusted();
  for (const Value& affix : affixes) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    if (affix.text() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("startswith() and endswith() take strings, not a ", Describe(affix)));
    }
    BATON_ASSIGN_OR_RETURN(const Text* wanted, ToText(workspace, affix));
    trusted = trusted && wanted->trusted();
    found = found || (at_start ? absl::StartsWith(text->bytes(), wanted->bytes())
                               : absl::EndsWith(text->bytes(), wanted->bytes()));
  }
  return Value{found, trusted};
}

absl::StatusOr<Value> Find(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* text, StringSubject(workspace, subject, "find"));
  if (arguments[0]->text() == nullptr) return absl::InvalidArgumentError("find() takes a string");
  const Text& wanted = *arguments[0]->text();
  const bool trusted = text->trusted() && wanted.trusted();
  BATON_ASSIGN_OR_RETURN(const size_t found,
                         FindBytes(workspace, text->bytes(), wanted.bytes(), 0));
  if (found == absl::string_view::npos) return Value{int64_t{-1}, trusted};
  return Value{static_cast<int64_t>(CharacterCount(text->bytes().substr(0, found))), trusted};
}

absl::StatusOr<Value> StringJoin(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* separator, StringSubject(workspace, subject, "join"));
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, *arguments[0]));
  return JoinTexts(workspace, *list, *separator);
}

// The method format(), whose fields are "{}".
absl::StatusOr<Value> Format(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* text, StringSubject(workspace, subject, "format"));
  const absl::string_view bytes = text->bytes();
  TextBuilder builder(workspace);
  size_t used = 0;
  size_t plain = 0;
  for (size_t at = bytes.find_first_of("{}"); at != absl::string_view::npos;
       at = bytes.find_first_of("{}", at + 2)) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    const absl::string_view field = bytes.substr(at, 2);
    const bool escaped = field == "{{" || field == "}}";
    BATON_RETURN_IF_ERROR(builder.AppendSlice(*text, plain, at + (escaped ? 1 : 0)));
    plain = at + 2;
    if (escaped) continue;
    if (field != "{}" || used == arguments.size() || arguments[used] == nullptr) {
      return absl::InvalidArgumentError(
          "format() supports only fields '{}' and needs an argument for each of them");
    }
    BATON_ASSIGN_OR_RETURN(const Text* argument, ToText(workspace, *arguments[used++]));
    BATON_RETURN_IF_ERROR(text->TrustedBetween(at, at + 2)
                              ? builder.Append(*argument)
                              : builder.Append(argument->bytes(), false));
  }
  BATON_RETURN_IF_ERROR(builder.AppendSlice(*text, plain, bytes.size()));
  return builder.Finish();
}

// Lists do not change, as in the sandbox where transformers runs templates.
absl::StatusOr<Value> Mutate(Workspace&, const Value& subject, Arguments) {
  return absl::InvalidArgumentError(
      absl::StrCat("a ", Describe(subject), " has no method that changes it; add lists with '+'"));
}

absl::StatusOr<Value> Get(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const Dict* dict, DictSubject(subject, "get"));
  for (const auto& [key, value] : dict->items) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, key, *arguments[0]));
    if (equal) return value;
  }
  return arguments[1] != nullptr ? *arguments[1] : Value{None{}};
}

absl::StatusOr<Value> DictItems(Workspace& workspace, const Value& subject, Arguments) {
  BATON_ASSIGN_OR_RETURN(const Dict* dict, DictSubject(subject, "items"));
  return ItemsOf(workspace, *dict, false);
}

absl::StatusOr<Value> Keys(Workspace& workspace, const Value& subject, Arguments) {
  BATON_RETURN_IF_ERROR(DictSubject(subject, "keys").status());
  BATON_ASSIGN_OR_RETURN(const List* keys, Iterate(workspace, subject));
  return Value{keys};
}

absl::StatusOr<Value> Values(Workspace& workspace, const Value& subject, Arguments) {
  BATON_ASSIGN_OR_RETURN(const Dict* dict, DictSubject(subject, "values"));
  ListBuilder values(workspace, {.trusted_size = dict->trusted_size});
  for (const auto& item : dict->items) BATON_RETURN_IF_ERROR(values.Add(item.second));
  return values.Finish();
}

}  // namespace

absl::Span<const Builtin> Methods() {
  static const std::vector<Builtin>& methods = *new std::vector<Builtin>{
      {"strip", 0, {"chars"}, Strip<true, true>},
      {"lstrip", 0, {"chars"}, Strip<true, false>},
      {"rstrip", 0, {"chars"}, Strip<false, true>},
      {"upper", 0, {}, StringCase<LetterCase::kUpper>},
      {"lower", 0, {}, StringCase<LetterCase::kLower>},
      {"title", 0, {}, StringCase<LetterCase::kTitle>},
      {"capitalize", 0, {}, StringCase<LetterCase::kCapitalize>},
      {"replace", 2, {"old", "new", "count"}, StringReplace},
      {"split", 0, {"sep", "maxsplit"}, Split},
      {"startswith", 1, {"prefix"}, HasAffix<true>},
      {"endswith", 1, {"suffix"}, HasAffix<false>},
      {"find", 1, {"sub"}, Find},
      {"join", 1, {"iterable"}, StringJoin},
      {"get", 1, {"key", "default"}, Get},
      {"items", 0, {}, DictItems},
      {"keys", 0, {}, Keys},
      {"values", 0, {}, Values},
      {"format", 0, {"first", "second", "third", "fourth"}, Format},
      {"append", 1, {"item"}, Mutate},
      {"pop", 0, {"index", "default"}, Mutate},
  };
  return methods;
}

}  // namespace baton::jinja
