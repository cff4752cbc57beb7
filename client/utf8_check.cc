#include "client/utf8_check.h"

#include "absl/strings/str_format.h"

#include "common/base/utf8.h"

namespace baton {

absl::Status CheckUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(at));
    if (unit.kind != Utf8Unit::Kind::kCharacter) {
      return absl::InvalidArgumentError(absl::StrFormat("is not UTF-8: byte %d is 0x%02x", at + 1,
                                                        static_cast<unsigned char>(text[at])));
    }
    at += unit.size;
  }
  return absl::OkStatus();
}

}  // namespace baton
