// Renders templates for jinja_differential_test.py. Each line of the input is a JSON object with
// "source" and "messages"; each line of the output is the same as a JSON object with "output", or
// with "error" and whether a budget ran out ("exhausted").
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/common/jinja/chat_template_goldens.h"

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const nlohmann::json asked = nlohmann::json::parse(line);
    baton::Messages messages;
    for (const auto& message : asked["messages"]) {
      messages.push_back({.role = message["role"], .content = message["content"], .name = ""});
    }
    const auto pieces = baton::RenderSource(asked["source"].get<std::string>(), messages);
    nlohmann::json answer;
    if (pieces.ok()) {
      std::string output;
      for (const baton::TextPiece& piece : *pieces) output += piece.text;
      answer["output"] = output;
    } else {
      answer["error"] = std::string(pieces.status().message());
      answer["exhausted"] = absl::IsResourceExhausted(pieces.status());
    }
    std::cout << answer.dump() << '\n';
  }
}
