// The chat templates of tests/data/templates/public.jsonl, as a router uses them.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "router/tools/chat_json.h"

namespace baton {

struct PublicTemplate {
  std::string name;  // without ".jinja"
  std::string source;
  ChatTemplate compiled;
  ChatTemplateOptions options;
  ChatShape shape;
};

// The lines of a file of JSON in tests/data.
inline std::vector<nlohmann::ordered_json> LinesOf(const std::string& name) {
  std::vector<nlohmann::ordered_json> lines;
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/", name));
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::ordered_json::parse(line));
  }
  return lines;
}

// All that compile, in the order of the file.
inline const std::vector<PublicTemplate>& PublicTemplates() {
  static const auto& templates = *[] {
    auto* read = new std::vector<PublicTemplate>();
    for (const auto& line : LinesOf("templates/public.jsonl")) {
      if (!line.contains("template")) continue;
      const std::string name = line["name"];
      std::string source = line["template"];
      auto compiled = ChatTemplate::Compile(source);
      if (!compiled.ok()) continue;
      ChatTemplateOptions options{.bos_token = "<s>", .eos_token = "</s>"};
      if (compiled->NeedsToday()) options.today = absl::CivilDay(2026, 7, 6);
      const ChatShape shape = ShapeOf(*compiled, ToolForm::OfTemplate(source).kind(), options);
      read->push_back({name.substr(0, name.rfind('.')), std::move(source), *std::move(compiled),
                       std::move(options), shape});
    }
    return read;
  }();
  return templates;
}

inline const PublicTemplate& PublicTemplateOf(const std::string& name) {
  for (const PublicTemplate& found : PublicTemplates()) {
    if (found.name == name) return found;
  }
  ADD_FAILURE() << name << " is not there";
  return PublicTemplates().front();
}

}  // namespace baton
