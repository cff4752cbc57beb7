// The templates, conversations and jinja2's outputs in tests/data/templates.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "common/jinja/chat_template.h"

namespace baton {

using Messages = std::vector<ChatMessage>;

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline const std::string kFolder = BATON_TEST_DATA "/templates/";

inline const nlohmann::json& Goldens() {
  static const auto& goldens =
      *new nlohmann::json(nlohmann::json::parse(ReadFile(kFolder + "goldens.json")));
  return goldens;
}

inline Messages Conversation(const std::string& name) {
  Messages messages;
  for (const auto& message : Goldens()["conversations"][name]) {
    messages.push_back({.role = message["role"],
                        .content = message["content"],
                        .name = message.value("name", "")});
  }
  return messages;
}

inline std::vector<std::string> TemplateFiles() {
  std::vector<std::string> files;
  for (const auto& [name, cases] : Goldens()["templates"].items()) files.push_back(name);
  return files;
}

inline ChatTemplateOptions Options(bool add_generation_prompt) {
  return {.add_generation_prompt = add_generation_prompt, .bos_token = "<s>", .eos_token = "</s>"};
}

inline absl::StatusOr<std::vector<TextPiece>> RenderSource(absl::string_view source,
                                                           const Messages& messages) {
  auto compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) return compiled.status();
  return compiled->Render(messages, Options(true));
}

}  // namespace baton
