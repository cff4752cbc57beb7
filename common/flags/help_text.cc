#include "common/flags/help_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace baton {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kWidestName = 26;  // longer names have a line of their own

struct Entry {
  std::string name;
  std::string help;
};

// Appends the words of `text` in lines of at most `columns` characters. The first line continues a
// line of `at` characters, the others begin after `indent` blanks.
void AppendWrapped(std::string& out, absl::string_view text, size_t at, size_t indent,
                   size_t columns) {
  bool is_first = true;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!is_first && at + 1 + word.size() > columns) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      at = indent;
      is_first = true;
    }
    absl::StrAppend(&out, is_first ? "" : " ", word);
    at += word.size() + (is_first ? 0 : 1);
    is_first = false;
  }
  absl::StrAppend(&out, "\n");
}

// Returns the column in which the help of the entries begins.
size_t ColumnOf(const std::vector<Entry>& entries) {
  size_t widest = 0;
  for (const Entry& entry : entries) {
    if (entry.name.size() <= kWidestName) widest = std::max(widest, entry.name.size());
  }
  return kIndent + widest + 2;
}

// Appends a heading and its entries.
void AppendEntries(std::string& out, absl::string_view heading, const std::vector<Entry>& entries,
                   size_t column, size_t columns) {
  if (entries.empty()) return;
  absl::StrAppend(&out, "\n", heading, ":\n");
  for (const Entry& entry : entries) {
    const std::string begin = absl::StrCat(std::string(kIndent, ' '), entry.name);
    const bool has_own_line = begin.size() + 2 > column;
    absl::StrAppend(&out, begin, has_own_line ? "\n" : "",
                    std::string(has_own_line ? column : column - begin.size(), ' '));
    AppendWrapped(out, entry.help, column, column, columns);
  }
}

// The entry of a flag, whose long name stands in one column with that of others.
Entry EntryOf(const FlagFacts& flag) {
  const bool is_on = flag.negatable && !flag.default_text.empty();
  std::string name = flag.short_name.empty() ? "    " : absl::StrCat("-", flag.short_name, ", ");
  absl::StrAppend(&name, is_on ? "--[no-]" : "--", flag.name);
  std::string help = flag.help;
  if (!flag.placeholder.empty()) {
    absl::StrAppend(&name, " ", flag.placeholder, flag.repeated ? "..." : "");
  }
  if (!flag.default_text.empty()) absl::StrAppend(&help, " (default: ", flag.default_text, ")");
  return {.name = std::move(name), .help = std::move(help)};
}

// Returns the entries of the flags in `group`; of all flags without one.
std::vector<Entry> EntriesOf(const CommandFacts& facts, std::optional<FlagGroup> group) {
  std::vector<Entry> entries;
  for (const FlagFacts& flag : facts.flags) {
    if (!group.has_value() || flag.group == *group) entries.push_back(EntryOf(flag));
  }
  return entries;
}

std::vector<FlagGroup> GroupsOf(const CommandFacts& facts) {
  std::vector<FlagGroup> groups;
  for (const FlagGroup group : kFlagGroups) {
    const auto in_group = [group](const FlagFacts& flag) { return flag.group == group; };
    if (std::any_of(facts.flags.begin(), facts.flags.end(), in_group)) groups.push_back(group);
  }
  return groups;
}

std::string Usage(const CommandFacts& facts) {
  std::string usage = absl::StrCat("Usage: ", facts.program);
  if (!facts.subcommands.empty()) return absl::StrCat(usage, " COMMAND [FLAGS]");
  absl::StrAppend(&usage, " [FLAGS]");
  for (const ArgumentFacts& argument : facts.arguments) {
    absl::StrAppend(&usage, " [", argument.name, "]", argument.repeated ? "..." : "");
  }
  return usage;
}

// Appends the flags that most people need, and the names of the groups that have the others.
void AppendFirstFlags(std::string& out, const CommandFacts& facts, size_t columns) {
  std::vector<Entry> entries;
  for (const std::string& name : facts.first) {
    for (const FlagFacts& flag : facts.flags) {
      if (flag.name == name) entries.push_back(EntryOf(flag));
    }
  }
  AppendEntries(out, "Flags", entries, ColumnOf(entries), columns);
  std::vector<std::string> names;
  for (const FlagGroup group : GroupsOf(facts)) names.push_back(FlagGroupName(group));
  absl::StrAppend(&out, "\nMore flags, by --help-all or, for one of these groups, --help GROUP:\n",
                  std::string(kIndent, ' '));
  AppendWrapped(out, absl::StrJoin(names, ", "), kIndent, kIndent, columns);
}

void AppendGroups(std::string& out, const CommandFacts& facts, size_t columns) {
  const std::vector<FlagGroup> groups = GroupsOf(facts);
  const size_t column = ColumnOf(EntriesOf(facts, std::nullopt));
  for (const FlagGroup group : groups) {
    const absl::string_view heading = groups.size() == 1 ? "Flags" : FlagGroupTitle(group);
    AppendEntries(out, heading, EntriesOf(facts, group), column, columns);
  }
}

}  // namespace

int HelpColumns(int terminal_columns) {
  return terminal_columns == 0 ? 80 : std::clamp(terminal_columns, 60, 100);
}

std::string HelpText(const CommandFacts& facts, const HelpRequest& request, int columns) {
  const size_t width = static_cast<size_t>(columns);
  std::string out;
  AppendWrapped(out, facts.description, 0, 0, width);
  if (request.group.has_value()) {
    const std::vector<Entry> flags = EntriesOf(facts, request.group);
    AppendEntries(out, FlagGroupTitle(*request.group), flags, ColumnOf(flags), width);
    return out;
  }
  absl::StrAppend(&out, "\n", Usage(facts), "\n");
  std::vector<Entry> entries;
  for (const SubcommandFacts& each : facts.subcommands) {
    entries.push_back({.name = each.name, .help = each.description});
  }
  AppendEntries(out, "Commands", entries, ColumnOf(entries), width);
  entries.clear();
  for (const ArgumentFacts& argument : facts.arguments) {
    entries.push_back({.name = argument.name, .help = argument.help});
  }
  AppendEntries(out, "Arguments", entries, ColumnOf(entries), width);
  const bool is_short = !request.all && !facts.first.empty();
  if (is_short) {
    AppendFirstFlags(out, facts, width);
  } else {
    AppendGroups(out, facts, width);
  }
  if (!facts.examples.empty()) absl::StrAppend(&out, "\nExamples:\n");
  for (const Example& example : facts.examples) {
    absl::StrAppend(&out, std::string(kIndent, ' '), example.command, "\n");
    absl::StrAppend(&out, std::string(3 * kIndent, ' '));
    AppendWrapped(out, example.meaning, 3 * kIndent, 3 * kIndent, width);
  }
  if (facts.footer.empty() || is_short) return out;
  absl::StrAppend(&out, "\n");
  for (absl::string_view line : absl::StrSplit(facts.footer, '\n')) {
    AppendWrapped(out, line, 0, 0, width);
  }
  return out;
}

}  // namespace baton
