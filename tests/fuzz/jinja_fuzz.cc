// Any bytes as a chat template: an error, or a prompt in which no text of a message is trusted.
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "common/base/check.h"
#include "common/jinja/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view source(reinterpret_cast<const char*>(data), size);
  const std::string secret = "\xF0\x9F\x94\x91";
  // A template may say it itself, as the character or as \U0001f511.
  if (absl::StrContains(source, secret) || absl::StrContains(source, "\\U")) return 0;
  const auto compiled = baton::ChatTemplate::Compile(source);
  if (!compiled.ok()) return 0;
  const std::vector<baton::ChatMessage> messages = {
      {.role = "system", .content = secret, .name = ""},
      {.role = "user", .content = secret + " a, b\n" + secret, .name = secret},
      {.role = secret, .content = "", .name = ""}};
  const auto pieces = compiled->Render(messages, {.bos_token = "<s>", .eos_token = "</s>"});
  if (!pieces.ok()) return 0;
  for (size_t i = 0; i < pieces->size(); ++i) {
    const baton::TextPiece& piece = (*pieces)[i];
    BATON_CHECK(!piece.trusted || !absl::StrContains(piece.text, secret), "a message is trusted");
    BATON_CHECK(i == 0 || piece.trusted != (*pieces)[i - 1].trusted, "neighbours differ in trust");
  }
  return 0;
}
