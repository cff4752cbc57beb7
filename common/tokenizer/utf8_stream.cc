#include "common/tokenizer/utf8_stream.h"

#include "common/base/utf8.h"

namespace baton {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Stream::Push(absl::string_view bytes) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined.append(bytes.data(), bytes.size());
    bytes = joined;
    pending_.clear();
  }
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Unit unit = NextUtf8Unit(bytes);
    switch (unit.kind) {
      case Utf8Unit::Kind::kCharacter:
        text.append(bytes.data(), unit.size);
        break;
      case Utf8Unit::Kind::kInvalid:
        text += kReplacement;
        break;
      case Utf8Unit::Kind::kIncomplete:
        pending_.assign(bytes.data(), unit.size);
        break;
    }
    bytes.remove_prefix(unit.size);
  }
  return text;
}

std::string Utf8Stream::Finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return kReplacement;
}

std::string ReplaceInvalidUtf8(absl::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  return text + stream.Finish();
}

}  // namespace baton
