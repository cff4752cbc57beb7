#include "common/tokenizer/split/split_expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/tokenizer/split/regex_dialect.h"

namespace baton {
namespace {

constexpr uint32_t kFreeSteps = 256;             // steps of each match that cost no budget
constexpr uint32_t kMaxHeapKibibytes = 1 << 18;  // heap of each match
constexpr size_t kPlaces = 64;                   // bytes where a match may begin, of the first run
constexpr int kRunsBetweenLooks = 16;  // at the clock, which costs as much as a short match

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

struct Match {
  size_t begin;
  size_t size;
};

using Code = std::unique_ptr<pcre2_code, FreePcre2>;

// An expression, compiled with `options`.
absl::StatusOr<Code> Compile(const std::string& pattern, uint32_t options, bool use_jit) {
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | options, &error, &error_offset,
                          nullptr));
  if (code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(reinterpret_cast<const char*>(message));
  }
  // If executable memory is not allowed, PCRE2 interprets: same pieces, about ten times slower.
  if (use_jit) pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

}  // namespace

struct SplitExpression::Rep {
  Code at_place;  // matches where it begins to look, and nowhere else
  Code anywhere;
};

namespace {

// What matching one text needs.
class Matcher {
 public:
  Matcher(const pcre2_code& at_place, const pcre2_code& anywhere, absl::string_view text,
          SplitBudget& budget)
      : at_place_(at_place),
        anywhere_(anywhere),
        text_(text),
        budget_(budget),
        context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create(1, nullptr)) {
    BATON_CHECK(context_ != nullptr && data_ != nullptr, "PCRE2 must have memory for a match");
    pcre2_set_depth_limit(context_.get(), UINT32_MAX);
    pcre2_set_heap_limit(context_.get(), kMaxHeapKibibytes);
  }

  // The first match from `position` on; nullopt if there is none.
  absl::StatusOr<std::optional<Match>> Next(size_t position) {
    int result = PCRE2_ERROR_NOMATCH;
    // Each run tries twice as many places as all before it, so that the clock is looked at early and
    // a match far away is still found in few runs.
    for (size_t places = kPlaces; result == PCRE2_ERROR_NOMATCH; places *= 2) {
      const size_t end = PlacesEnd(position, places);
      pcre2_set_offset_limit(context_.get(), end);
      result = Run(anywhere_, position, kFreeSteps);
      BATON_RETURN_IF_ERROR(CountRun(/*found=*/result > 0));
      if (result > 0) {
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
        return Match{.begin = bounds[0], .size = bounds[1] - bounds[0]};
      }
      if (result == PCRE2_ERROR_NOMATCH) {
        if (end == text_.size()) return std::nullopt;
        position = end;
      }
    }
    // At some place it takes more than the free steps. Each place is tried by itself, up to the
    // next match, so that what each takes is known.
    pcre2_set_offset_limit(context_.get(), PCRE2_UNSET);
    for (; position < text_.size(); position += NextUtf8Unit(text_.substr(position)).size) {
      BATON_ASSIGN_OR_RETURN(const std::optional<size_t> size, SizeAt(position));
      if (size.has_value()) return Match{.begin = position, .size = *size};
    }
    return std::nullopt;
  }

 private:
  // Where a run from `position` on ends: at a character, `places` bytes further.
  size_t PlacesEnd(size_t position, size_t places) const {
    size_t end = std::min(text_.size(), position + places);
    while (end < text_.size() && (static_cast<uint8_t>(text_[end]) & 0xC0) == 0x80) ++end;
    return end;
  }
  static absl::Status TooManySteps() {
    return absl::ResourceExhaustedError(
        "the tokenizer's regular expression takes too many steps to split this text");
  }
  // Looks at the clock after some runs, and after each that tried all its places in vain.
  absl::Status CountRun(bool found) {
    if (found && ++runs_ % kRunsBetweenLooks != 0) return absl::OkStatus();
    return budget_.HasTime() ? absl::OkStatus() : TooManySteps();
  }
  // The size of the match at `position`; nullopt if there is none.
  absl::StatusOr<std::optional<size_t>> SizeAt(size_t position) {
    for (uint64_t steps = kFreeSteps;; steps *= 4) {
      const int result = Run(at_place_, position, steps);
      BATON_RETURN_IF_ERROR(CountRun(/*found=*/true));
      if (result > 0) return pcre2_get_ovector_pointer(data_.get())[1] - position;
      if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
      if (result != PCRE2_ERROR_MATCHLIMIT || !budget_.Spend(steps)) return TooManySteps();
    }
  }
  int Run(const pcre2_code& code, size_t position, uint64_t steps) {
    pcre2_set_match_limit(context_.get(),
                          static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
    const int result = RunOnce(code, position, 0);
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? RunOnce(code, position, PCRE2_NO_JIT) : result;
  }
  int RunOnce(const pcre2_code& code, size_t position, uint32_t options) {
    return pcre2_match(&code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), position,
                       PCRE2_NO_UTF_CHECK | options, data_.get(), context_.get());
  }

  const pcre2_code& at_place_;
  const pcre2_code& anywhere_;
  const absl::string_view text_;
  SplitBudget& budget_;
  int runs_ = 0;
  std::unique_ptr<pcre2_match_context, FreePcre2> context_;
  std::unique_ptr<pcre2_match_data, FreePcre2> data_;
};

}  // namespace

absl::StatusOr<SplitExpression> SplitExpression::Create(absl::string_view expression,
                                                        bool use_jit) {
  BATON_ASSIGN_OR_RETURN(const std::string pattern, PcreFromOniguruma(expression));
  auto rep = std::make_unique<Rep>();
  absl::StatusOr<Code> at_place = Compile(pattern, PCRE2_ANCHORED, use_jit);
  if (!at_place.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the expression \"", absl::Utf8SafeCHexEscape(expression.substr(0, 200)),
                     "\" cannot be compiled: ", at_place.status().message()));
  }
  rep->at_place = *std::move(at_place);
  BATON_ASSIGN_OR_RETURN(rep->anywhere, Compile(pattern, PCRE2_USE_OFFSET_LIMIT, use_jit));
  return SplitExpression(std::move(rep));
}

SplitExpression::SplitExpression(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
SplitExpression::SplitExpression(SplitExpression&&) noexcept = default;
SplitExpression& SplitExpression::operator=(SplitExpression&&) noexcept = default;
SplitExpression::~SplitExpression() = default;

absl::Status SplitExpression::Split(absl::string_view text, SplitBudget& budget,
                                    absl::FunctionRef<void(absl::string_view, bool)> piece) const {
  Matcher matcher(*rep_->at_place, *rep_->anywhere, text, budget);
  size_t between = 0;  // where the text since the last match begins
  for (size_t position = 0; position < text.size();) {
    BATON_ASSIGN_OR_RETURN(const std::optional<Match> match, matcher.Next(position));
    if (!match.has_value()) break;
    position = match->begin + match->size;
    if (match->size > 0 || between < match->begin) {
      if (between < match->begin) piece(text.substr(between, match->begin - between), false);
      piece(text.substr(match->begin, match->size), true);
      between = position;
    }
    if (match->size == 0 && position < text.size()) {
      position += NextUtf8Unit(text.substr(position)).size;
    }
  }
  if (between < text.size()) piece(text.substr(between), false);
  return absl::OkStatus();
}

}  // namespace baton
