// Answers of models, for the parsers of every family: the parts are the same however the text is
// cut.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "common/base/check.h"
#include "tests/router/tools/joined_parts.h"
#include "tests/router/tools/sample_forms.h"

// The first byte chooses the family, the second the size of the pieces; the rest is the answer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const baton::ToolForm form =
      baton::SampleForm(baton::kAllKinds[data[0] % std::size(baton::kAllKinds)])
          .WithOpenReasoning(data[0] >= 128);
  const baton::v1::ChatInput chat = baton::SampleChat();
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto whole = baton::Parsed(*form.NewParser(chat, 1, 0), text, 0);
  const auto cut = baton::Parsed(*form.NewParser(chat, 1, 0), text, 1 + data[1] % 16);
  BATON_CHECK(whole == cut, "the parts depend on where the text was cut");
  size_t bytes = 0;
  bool in_call = false;
  for (const baton::AnswerPart& part : cut) {
    bytes += part.text.size();
    using Kind = baton::AnswerPart::Kind;
    in_call = part.kind == Kind::kCall || (in_call && part.kind == Kind::kArguments);
    BATON_CHECK(in_call || part.kind != Kind::kArguments, "arguments outside of a call");
  }
  // JSON of XML may escape each byte; nothing else makes text longer.
  BATON_CHECK(bytes <= 6 * text.size() + 64, "an answer must not be much longer than the text");
  return 0;
}
