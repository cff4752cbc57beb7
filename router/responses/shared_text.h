// JSON texts that events repeat: made once, and shared by all that contain them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace baton {

// A text that grows at its end. Not thread-safe.
class GrowingText {
 public:
  void Append(absl::string_view text);
  // Returns the text so far: few large pieces, which all copies share.
  const absl::Cord& Get();
  bool empty() const { return sealed_.empty() && last_.empty(); }

 private:
  absl::Cord sealed_;
  std::string last_;  // follows `sealed_`
};

// An object of JSON whose values are texts of JSON. Keeps the order of its keys. Not thread-safe.
class SharedObject {
 public:
  SharedObject() = default;
  explicit SharedObject(const nlohmann::ordered_json& object);

  // Adds the key, or gives it another value. `key` needs no escapes.
  void Set(absl::string_view key, absl::Cord value);
  void Set(absl::string_view key, const nlohmann::ordered_json& value);
  absl::Cord Text() const;

 private:
  std::vector<std::pair<std::string, absl::Cord>> fields_;
};

// The text of a string of JSON without its quotes.
std::string EscapedText(const std::string& text);

// `open`, `text` and `close` as one text, such as an array of what `text` lists.
absl::Cord Enclosed(absl::string_view open, const absl::Cord& text, absl::string_view close);

}  // namespace baton
