// JSON text from outside becomes a tree in time linear in its bytes, within limits.
//
// nlohmann's own parser has a callback that could keep limits; at each end of an object it walks all
// that stands before it in the array around. And its objects with ordered keys look through all keys
// at each further one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace baton {

// What a text may have; what is not set is not limited.
struct JsonLimits {
  size_t depth = std::numeric_limits<size_t>::max();        // arrays and objects in each other
  size_t values = std::numeric_limits<size_t>::max();       // keys count as values too
  size_t keys = std::numeric_limits<size_t>::max();         // keys in all objects together
  size_t object_keys = std::numeric_limits<size_t>::max();  // keys in one object
  bool unique_keys =
      false;  // else, of a key that stands twice, the last value counts, at the first's place
  bool signed_integers =
      false;  // whole numbers are of 64 bits with a sign; longer ones are refused
};

// Why a text is no tree.
struct JsonFault {
  enum class Kind { kSyntax, kDepth, kValues, kKeys, kObjectKeys, kRepeatedKey, kInteger };
  Kind kind = Kind::kSyntax;
  size_t byte = 0;        // kSyntax: the number, from 1, of the byte that does not belong there
  std::string what = {};  // kSyntax: the same for people
  // The place of the object or array that has the fault, such as "tools[1].function"; empty: the
  // outermost.
  std::string path = {};
  std::string key = {};  // kRepeatedKey: which one
};

// Returns the tree of `text`; none, and the first fault, if it is no JSON (RFC 8259; a byte order
// mark in front is left out) or passes a limit. `Json` is nlohmann::json, or nlohmann::ordered_json,
// which keeps the order of keys. A pure function.
template <typename Json>
std::optional<Json> ParseJson(absl::string_view text, const JsonLimits& limits, JsonFault& fault);

extern template std::optional<nlohmann::json> ParseJson(absl::string_view, const JsonLimits&,
                                                        JsonFault&);
extern template std::optional<nlohmann::ordered_json> ParseJson(absl::string_view,
                                                                const JsonLimits&, JsonFault&);

// Returns the tree of a text whose size was checked before; a discarded value, as nlohmann's own
// parser does, if it is no JSON.
nlohmann::ordered_json ParseOrderedJson(absl::string_view text);

}  // namespace baton
