#include "common/flags/command_facts.h"

#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "common/base/version.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

FlagFacts FlagOf(const CLI::Option& option) {
  const bool has_short_name = !option.get_snames().empty();
  return {.name = option.get_lnames().front(),
          .short_name = has_short_name ? option.get_snames().front() : "",
          .help = option.get_description(),
          .placeholder = option.get_type_name(),
          .default_text = option.get_default_str(),
          .choices = {},
          .group = FlagGroup::kGeneral,
          .takes_value = option.get_items_expected_max() > 0,
          .negatable = !option.get_fnames().empty(),
          .repeated = option.get_items_expected_max() > 1};
}

Json ToJson(const FlagFacts& flag) {
  return {{"name", flag.name},
          {"short_name", flag.short_name},
          {"help", flag.help},
          {"placeholder", flag.placeholder},
          {"default", flag.default_text},
          {"choices", flag.choices},
          {"group", std::string(FlagGroupTitle(flag.group))},
          {"takes_value", flag.takes_value},
          {"negatable", flag.negatable},
          {"repeated", flag.repeated}};
}

Json ToJson(const CommandFacts& command) {
  Json flags = Json::array();
  for (const FlagFacts& flag : command.flags) flags.push_back(ToJson(flag));
  Json arguments = Json::array();
  for (const ArgumentFacts& argument : command.arguments) {
    arguments.push_back(
        {{"name", argument.name}, {"help", argument.help}, {"repeated", argument.repeated}});
  }
  Json examples = Json::array();
  for (const Example& example : command.examples) {
    examples.push_back({{"command", example.command}, {"meaning", example.meaning}});
  }
  Json groups = Json::array();
  for (const FlagGroup group : kFlagGroups) groups.push_back(std::string(FlagGroupTitle(group)));
  return {{"program", command.program},         {"version", Version()},
          {"description", command.description}, {"footer", command.footer},
          {"flags", std::move(flags)},          {"first", command.first},
          {"groups", std::move(groups)},        {"arguments", std::move(arguments)},
          {"examples", std::move(examples)}};
}

}  // namespace

bool AsksForFacts(int argc, const char* const* argv) {
  return argc == 2 && std::string(argv[1]) == kFactsFlag;
}

CommandFacts FactsOf(const CLI::App& app, const std::string& program) {
  CommandFacts facts{.program = program,
                     .description = app.get_description(),
                     .footer = app.get_footer(),
                     .flags = {},
                     .first = {},
                     .arguments = {},
                     .examples = {},
                     .subcommands = {}};
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    facts.subcommands.push_back(
        {.name = below->get_name(), .description = below->get_description()});
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // as in --help
    if (option->get_positional()) {
      facts.arguments.push_back({.name = option->get_name(/*positional=*/true),
                                 .help = option->get_description(),
                                 .repeated = option->get_items_expected_max() > 1});
    } else {
      facts.flags.push_back(FlagOf(*option));
    }
  }
  return facts;
}

std::string FactsJson(absl::Span<const CommandFacts> commands) {
  Json array = Json::array();
  for (const CommandFacts& command : commands) array.push_back(ToJson(command));
  return array.dump(1) + "\n";
}

}  // namespace baton
