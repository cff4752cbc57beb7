#include "router/responses/shared_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "router/openai/common_fields.h"

namespace baton {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;

}  // namespace

void GrowingText::Append(absl::string_view text) {
  last_.append(text.data(), text.size());
  if (last_.size() >= kPieceBytes) Get();
}

const absl::Cord& GrowingText::Get() {
  last_.shrink_to_fit();
  sealed_.Append(std::exchange(last_, {}));
  return sealed_;
}

SharedObject::SharedObject(const nlohmann::ordered_json& object) {
  for (const auto& [key, value] : object.items()) Set(key, value);
}

void SharedObject::Set(absl::string_view key, absl::Cord value) {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const auto& field) { return field.first == key; });
  if (found != fields_.end()) {
    found->second = std::move(value);
  } else {
    fields_.emplace_back(std::string(key), std::move(value));
  }
}

void SharedObject::Set(absl::string_view key, const nlohmann::ordered_json& value) {
  Set(key, absl::Cord(DumpJson(value)));
}

absl::Cord SharedObject::Text() const {
  absl::Cord text;
  const char* before = "{\"";
  for (const auto& [key, value] : fields_) {
    text.Append(absl::StrCat(before, key, "\":"));
    text.Append(value);
    before = ",\"";
  }
  text.Append(fields_.empty() ? "{}" : "}");
  return text;
}

std::string EscapedText(const std::string& text) {
  const std::string quoted = DumpJson(text);
  return quoted.substr(1, quoted.size() - 2);
}

absl::Cord Enclosed(absl::string_view open, const absl::Cord& text, absl::string_view close) {
  absl::Cord enclosed(open);
  enclosed.Append(text);
  enclosed.Append(close);
  return enclosed;
}

}  // namespace baton
