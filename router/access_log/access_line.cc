#include "router/access_log/access_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/utf8.h"

namespace baton {
namespace {

constexpr absl::string_view kCut = "...";

void AppendCharacter(uint32_t code, std::string& value) {
  constexpr uint32_t kFirstOfTwo = 0x10000, kHighHalf = 0xd800, kLowHalf = 0xdc00;
  if (code > ' ' && code < 0x7f && code != '"' && code != '\\') {
    value.push_back(static_cast<char>(code));
  } else if (code < kFirstOfTwo) {
    absl::StrAppendFormat(&value, "\\u%04x", code);
  } else {
    const uint32_t halves = code - kFirstOfTwo;
    absl::StrAppendFormat(&value, "\\u%04x\\u%04x", kHighHalf + (halves >> 10),
                          kLowHalf + (halves & 0x3ff));
  }
}

// The fields of a line, in their order.
class Fields {
 public:
  Fields(AccessFormat format, absl::Time at) : json_(format == AccessFormat::kJson) {
    const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", at, absl::UTCTimeZone());
    line_ = json_ ? absl::StrCat("{\"time\":\"", time,
                                 R"(","level":"info","role":"router","message":"access")")
                  : absl::StrCat(time, " access");
  }

  void Text(absl::string_view name, absl::string_view text) {
    if (json_) return absl::StrAppend(&line_, ",\"", name, "\":\"", AccessValue(text), "\"");
    absl::StrAppend(&line_, " ", name, "=", text.empty() ? "-" : AccessValue(text));
  }
  void Number(absl::string_view name, const absl::AlphaNum& number) {
    json_ ? absl::StrAppend(&line_, ",\"", name, "\":", number)
          : absl::StrAppend(&line_, " ", name, "=", number);
  }
  void Milliseconds(absl::string_view name, absl::Duration time) {
    Number(name, absl::StrFormat("%.1f", absl::ToDoubleMilliseconds(time)));
  }
  std::string Line() const { return absl::StrCat(line_, json_ ? "}\n" : "\n"); }

 private:
  const bool json_;
  std::string line_;
};

}  // namespace

std::string AccessValue(absl::string_view text) {
  std::string value;
  size_t kept = 0;  // bytes of whole characters behind which kCut has room
  while (!text.empty()) {
    constexpr uint32_t kReplacement = 0xfffd;
    const Utf8Unit unit = NextUtf8Unit(text);
    const bool valid = unit.kind == Utf8Unit::Kind::kCharacter;
    AppendCharacter(valid ? CodePointOf(text.substr(0, unit.size)) : kReplacement, value);
    if (value.size() + kCut.size() <= kMaxAccessValueBytes) kept = value.size();
    if (value.size() > kMaxAccessValueBytes) return absl::StrCat(value.substr(0, kept), kCut);
    text.remove_prefix(unit.size);
  }
  return value;
}

std::string AccessLine(const AccessRecord& record, AccessFormat format, uint64_t left_out) {
  Fields fields(format, record.ended);
  fields.Text("id", record.id);
  fields.Text("tenant", record.tenant);
  fields.Text("route", record.route);
  fields.Text("status", record.status);
  if (!record.error.empty()) fields.Text("error", record.error);
  if (record.work.has_value()) {
    const AccessWork& work = *record.work;
    fields.Number("prompt_tokens", work.prompt_tokens);
    fields.Number("cached_tokens", work.cached_tokens);
    fields.Number("output_tokens", work.output_tokens);
    if (work.time_to_first_token.has_value()) {
      fields.Milliseconds("ttft_ms", *work.time_to_first_token);
    }
    fields.Number("attempts", work.attempts);
  }
  fields.Milliseconds("total_ms", record.total);
  if (left_out > 0) fields.Number("left_out", left_out);
  return fields.Line();
}

}  // namespace baton
