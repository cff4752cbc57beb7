#include "common/grammar/schema_scalars.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/base/status_macros.h"
#include "common/grammar/pattern_states.h"
#include "common/grammar/string_format.h"
#include "common/grammar/string_pattern.h"

namespace baton {
namespace {

constexpr int64_t kMaxMultipleOf = 1024;  // above it XGrammar ignores the keyword
// XGrammar writes bounds as decimals with six places, which a double of this size still has.
constexpr double kMaxNumberBound = 1e9;
// And it computes with bounds of integers in 64 bits.
constexpr double kMaxIntegerBound = 1e18;

absl::Status CheckMultipleOf(const SchemaJson& schema, const SchemaTypes& types,
                             const std::string& pointer) {
  const std::string at = ChildPointer(pointer, "multipleOf");
  const SchemaJson& value = schema["multipleOf"];
  if (std::find(types.begin(), types.end(), "number") != types.end()) {
    return SchemaNotSupported(at, "it is supported for integers only");
  }
  if (!value.is_number_integer() || value.get<int64_t>() < 1 ||
      value.get<int64_t>() > kMaxMultipleOf) {
    return SchemaNotSupported(at, absl::StrCat("it is not an integer from 1 to ", kMaxMultipleOf));
  }
  for (const char* bound :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"}) {
    if (schema.contains(bound)) {
      return SchemaNotSupported(
          at, absl::StrCat("it cannot be combined with ", bound, "; use one of them"));
    }
  }
  return absl::OkStatus();
}

// The formats of OpenAPI: those of integers are bounds, of which it adds those that `out` lacks.
absl::Status CheckNumberFormat(const SchemaJson& schema, bool numbers, const std::string& pointer,
                               SchemaJson& out) {
  const SchemaJson& format = schema["format"];
  if (format == "float" || format == "double") return absl::OkStatus();
  if (numbers || (format != "int32" && format != "int64")) {
    return SchemaNotSupported(
        ChildPointer(pointer, "format"),
        "use float or double of numbers, int32 or int64 of integers, or leave it out");
  }
  using Int32 = std::numeric_limits<int32_t>;
  constexpr auto kMost = static_cast<int64_t>(kMaxIntegerBound);
  const bool small = format == "int32";
  if (!out.contains("minimum") && !out.contains("exclusiveMinimum")) {
    out["minimum"] = small ? Int32::min() : -kMost;
  }
  if (!out.contains("maximum") && !out.contains("exclusiveMaximum")) {
    out["maximum"] = small ? Int32::max() : kMost;
  }
  return absl::OkStatus();
}

}  // namespace

std::string ChildPointer(absl::string_view pointer, absl::string_view key) {
  return absl::StrCat(pointer, "/", absl::StrReplaceAll(key, {{"~", "~0"}, {"/", "~1"}}));
}

absl::Status SchemaFault(absl::string_view pointer, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(pointer.empty() ? "the schema" : pointer, " ", what));
}

absl::Status SchemaNotSupported(absl::string_view pointer, absl::string_view why) {
  return SchemaFault(pointer, absl::StrCat("is not supported: ", why));
}

absl::StatusOr<int64_t> SchemaCount(const SchemaJson& schema, const char* keyword,
                                    const std::string& pointer, int64_t unset) {
  if (!schema.contains(keyword)) return unset;
  const SchemaJson& value = schema[keyword];
  if (!value.is_number_integer() || value.get<int64_t>() < 0 ||
      value.get<int64_t>() > kMaxSchemaCount) {
    return SchemaFault(ChildPointer(pointer, keyword),
                       absl::StrCat("is not an integer from 0 to ", kMaxSchemaCount));
  }
  return value.get<int64_t>();
}

absl::Status CheckString(const SchemaJson& schema, const std::string& pointer, SchemaJson& out,
                         CheckedSchema& checked) {
  const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
  const bool has_format = schema.contains("format");
  const bool has_pattern = schema.contains("pattern");
  if (has_pattern + has_format + has_length > 1) {
    return SchemaNotSupported(ChildPointer(pointer, has_pattern ? "pattern" : "format"),
                              "pattern, format and a length cannot be combined; use one of them");
  }
  if (has_pattern) {
    const std::string at = ChildPointer(pointer, "pattern");
    if (!schema["pattern"].is_string()) return SchemaFault(at, "is not a string");
    const std::string pattern = schema["pattern"].get<std::string>();
    for (const char byte : pattern) {
      if (byte < ' ' || byte > '~') return SchemaNotSupported(at, "it is not printable ASCII");
    }
    absl::StatusOr<std::string> sound = SoundPattern(pattern);
    if (!sound.ok()) return SchemaNotSupported(at, sound.status().message());
    out["pattern"] = *sound;
    checked.repetitions.push_back({.pointer = at, .states = RepeatedStates(*sound)});
    checked.patterns.push_back({.pointer = at, .expression = *std::move(sound)});
  } else if (has_format) {
    const SchemaJson& format = schema["format"];
    const auto pattern = format.is_string() ? FormatPattern(format.get<std::string>())
                                            : std::optional<std::string>();
    if (!pattern.has_value()) {
      return SchemaNotSupported(ChildPointer(pointer, "format"),
                                absl::StrCat("use ", SupportedFormats()));
    }
    BATON_ASSIGN_OR_RETURN(out["pattern"], SoundPattern(*pattern));
  } else if (has_length) {
    // XGrammar's own lengths let control characters through, which JSON does not allow.
    BATON_ASSIGN_OR_RETURN(const int64_t least, SchemaCount(schema, "minLength", pointer, 0));
    BATON_ASSIGN_OR_RETURN(const int64_t most,
                           SchemaCount(schema, "maxLength", pointer, kMaxSchemaCount));
    if (least > most) {
      return SchemaFault(ChildPointer(pointer, "minLength"), "is more than maxLength");
    }
    const bool bounded = most < kMaxSchemaCount;
    checked.repetitions.push_back(
        {.pointer = ChildPointer(pointer, bounded ? "maxLength" : "minLength"),
         .states = static_cast<double>(bounded ? most : least)});
    // The class says what JSON escapes, since long repetitions forget it (string_pattern.h).
    // tests/planted_bugs: schema_long_string_has_quotes
    out["pattern"] =
        absl::StrCat(R"(^[^"\\\x00-\x1f]{)", least, ",", bounded ? absl::StrCat(most) : "", "}$");
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(const SchemaJson& schema, const SchemaTypes& types,
                         const std::string& pointer, SchemaJson& out) {
  const bool integers = std::find(types.begin(), types.end(), "integer") != types.end();
  const bool numbers = std::find(types.begin(), types.end(), "number") != types.end();
  for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    if (!schema.contains(keyword)) continue;
    const SchemaJson& bound = schema[keyword];
    const std::string at = ChildPointer(pointer, keyword);
    if (!bound.is_number()) return SchemaFault(at, "is not a number");
    const double value = bound.get<double>();
    if (integers && !bound.is_number_integer()) {
      return SchemaNotSupported(at, "a bound of integers must be an integer");
    }
    const double most = numbers ? kMaxNumberBound : kMaxIntegerBound;
    if (std::abs(value) > most) {
      return SchemaNotSupported(at, absl::StrCat("it is not within -", most, " and ", most));
    }
    const double millionths = value * 1e6;
    if (std::abs(std::round(millionths) - millionths) >
        std::max(1e-6, std::abs(millionths) / 1e15)) {
      return SchemaNotSupported(at, "it has more than six decimals");
    }
    out[keyword] = bound;
  }
  const bool strings = std::find(types.begin(), types.end(), "string") != types.end();
  if (schema.contains("format") && !strings) {
    BATON_RETURN_IF_ERROR(CheckNumberFormat(schema, numbers, pointer, out));
  }
  if (schema.contains("multipleOf")) {
    BATON_RETURN_IF_ERROR(CheckMultipleOf(schema, types, pointer));
    out["multipleOf"] = schema["multipleOf"];
  }
  return absl::OkStatus();
}

}  // namespace baton
