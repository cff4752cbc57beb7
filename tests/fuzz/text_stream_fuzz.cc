// Generated text in any pieces: the characters and the end at a stop string are those of the whole.
//
// The first bytes give two stop strings and the sizes of the pieces, the rest is the text.
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/tokenizer/stop_matcher.h"
#include "common/tokenizer/utf8_stream.h"
#include "tests/fuzz/fuzz_input.h"

namespace baton {
namespace {

// The text up to the stop string that ends first; of several with that end, the one that starts
// first.
std::string Expected(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string longest;
    for (const std::string& stop : stops) {
      const bool ends =
          stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends && stop.size() > longest.size()) longest = stop;
    }
    if (!longest.empty()) return text.substr(0, include ? end : end - longest.size());
  }
  return text;
}

void Run(FuzzInput input) {
  const bool include = input.Below(2) == 1;
  std::vector<std::string> stops;
  for (int i = 0; i < 2; ++i) stops.push_back(input.Bytes(static_cast<size_t>(input.Below(5))));
  const std::vector<uint8_t> sizes = {input.Byte(), input.Byte(), input.Byte()};
  const std::string text = input.Bytes(4096);

  StopMatcher matcher(stops, include);
  Utf8Stream stream;
  std::string delivered;
  std::string characters;
  size_t piece = 0;
  for (size_t at = 0; at < text.size(); ++piece) {
    const size_t size = 1 + sizes[piece % sizes.size()] % 8;
    const std::string bytes = text.substr(at, size);
    delivered += matcher.Push(bytes).text;
    characters += stream.Push(bytes);
    at += size;
  }
  delivered += matcher.Finish();
  characters += stream.Finish();
  BATON_CHECK(characters == ReplaceInvalidUtf8(text), "pieces change the characters");
  BATON_CHECK(delivered == Expected(text, stops, include), "pieces change the end");
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::Run(baton::FuzzInput(data, size));
  return 0;
}
