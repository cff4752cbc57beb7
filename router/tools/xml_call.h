// Calls as XML: <function=name><parameter=key>value</parameter></function>.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

#include "router/tools/call_head.h"

namespace baton {

inline constexpr char kXmlCallBegin[] = "<function=";

// Finds the end of a call that grows, in time linear in its length. Not thread-safe.
class XmlCallScanner {
 public:
  // REQUIRES: `text` begins with kXmlCallBegin, and with what it was before. kYes: the call ends at
  // end().
  Fit Scan(absl::string_view text);
  size_t end() const { return at_; }

 private:
  size_t at_ = 0;  // read so far
  bool in_value_ = false;
};

// REQUIRES: `text` is a whole call, as the scanner found it. A value is a string where its schema
// in `parameters`, that of the tool's arguments, or null, says so, else JSON if it is any, else a
// string too. nullopt: it has no tool's name, or a part that is no parameter.
std::optional<WholeCall> ReadXmlCall(absl::string_view text,
                                     const nlohmann::ordered_json& parameters);
// The name of the tool that a whole call is for.
absl::string_view XmlCallName(absl::string_view text);

}  // namespace baton
