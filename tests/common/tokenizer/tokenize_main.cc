// Encodes strings for hugging_face_test.py. The first line of the input is a JSON object with
// "tokenizer", the text of a tokenizer.json,; each other line one with
// "text" and "special" (whether literals of special tokens count). Each line of the output is a
// JSON object with "ids" and "text", what they decode to without special tokens, or with "error".
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"

int main() {
  std::string line;
  std::getline(std::cin, line);
  const nlohmann::json first = nlohmann::json::parse(line);
  baton::GgufBuilder builder;
  builder.Text("tokenizer.huggingface.json", first["tokenizer"]);
  const auto file =
      baton::GgufFile::Parse(builder.Build(), "tokenizer.json", baton::GgufFile::Part::kTokenizer);
  const auto tokenizer = baton::Tokenizer::Load(*file);
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    if (!tokenizer.ok()) {
      answer["error"] = std::string(tokenizer.status().message());
    } else {
      const nlohmann::json asked = nlohmann::json::parse(line);
      const auto ids = (*tokenizer)
                           ->Encode(asked["text"].get<std::string>(),
                                    {.parse_special = asked["special"].get<bool>()});
      if (ids.ok()) {
        answer["ids"] = *ids;
        answer["text"] = (*tokenizer)->Decode(*ids, /*skip_special_tokens=*/true);
      } else {
        answer["error"] = std::string(ids.status().message());
      }
    }
    std::cout << answer.dump() << '\n';
  }
}
