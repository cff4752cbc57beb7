#include "common/tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/base/check.h"
#include "common/tokenizer/utf8.h"

namespace baton {
namespace {

// The character classes of the expressions below, to be used inside brackets. The reference
// tokenizers know Unicode 16 and PCRE2 10.42 only Unicode 14, so the later additions are listed
// here. PCRE2's own \s has U+180E, which is no White_Space since Unicode 6.3.
constexpr char kWhiteSpace[] = R"(\p{Z}\x09-\x0D\x85)";
constexpr char kLetters[] =
    R"(\p{L}\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3})"
    R"(\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3})"
    R"(\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF})"
    R"(\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB})"
    R"(\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr char kNumbers[] =
    R"(\p{N}\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"
    R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3})"
    R"(\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

constexpr char kGpt2[] =
    R"('(?:[sdmt]|ll|ve|re)| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|[\s]+(?![^\s])|[\s]+)";
// The two steps of "single digits, then the expression of GPT-2" in one expression: a sequence of
// spaces ends before a digit as it does before the end of the text.
constexpr char kDigitsApart[] =
    R"('(?:[sdmt]|ll|ve|re)| ?[\p{L}]+|[\p{N}]| ?[^\s\p{L}\p{N}]+|[\s]+(?![^\s\p{N}])|[\s]+)";
constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}]+|[\p{N}]{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|[\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";
constexpr char kQwen2[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}]+|[\p{N}]|)"
                          R"( ?[^\s\p{L}\p{N}]+[\r\n]*|[\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";

struct Scheme {
  const char* name;
  const char* pattern;
  bool takes_known_pieces_whole;
  bool adds_bos_by_default;
};
constexpr Scheme kSchemes[] = {
    {"gpt-2", kGpt2, false, false},         {"starcoder", kDigitsApart, false, false},
    {"smollm", kDigitsApart, false, false}, {"llama-bpe", kLlama3, true, true},
    {"qwen2", kQwen2, false, false},
};

constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct PreTokenizer::Rep {
  const Scheme* scheme;
  std::unique_ptr<pcre2_code, FreePcre2> code;
  std::unique_ptr<pcre2_match_context, FreePcre2> context;

  void SplitCharacters(absl::string_view text, pcre2_match_data* match,
                       absl::FunctionRef<void(absl::string_view)> piece) const;
  size_t PieceSize(absl::string_view text, size_t position, pcre2_match_data* match) const;
};

absl::StatusOr<PreTokenizer> PreTokenizer::Create(absl::string_view name,
                                                  const PreTokenizerOptions& options) {
  const Scheme* scheme = nullptr;
  std::string known;
  for (const Scheme& candidate : kSchemes) {
    if (name == candidate.name) scheme = &candidate;
    absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.name);
  }
  if (scheme == nullptr) {
    return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.pre: pre-tokenizer \"", name,
                                                 "\" is not supported; supported are ", known));
  }
  auto rep = std::make_unique<Rep>();
  rep->scheme = scheme;
  const std::string pattern = absl::StrReplaceAll(
      scheme->pattern, {{R"(\s)", kWhiteSpace}, {R"(\p{L})", kLetters}, {R"(\p{N})", kNumbers}});
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  rep->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &error_offset,
                                nullptr));
  if (rep->code == nullptr) {
    return absl::InternalError(absl::StrCat("PCRE2 error ", error, " at ", error_offset,
                                            " of the expression of pre-tokenizer ", name));
  }
  // If executable memory is not allowed, PCRE2 interprets: same pieces, about ten times slower.
  if (options.use_jit) pcre2_jit_compile(rep->code.get(), PCRE2_JIT_COMPLETE);
  rep->context.reset(pcre2_match_context_create(nullptr));
  BATON_CHECK(rep->context != nullptr, "out of memory");
  // The expressions backtrack at most twice over a sequence of characters, so no limit is needed; a
  // limit that is reached would split a text otherwise than in training.
  pcre2_set_match_limit(rep->context.get(), options.match_limit);
  pcre2_set_depth_limit(rep->context.get(), std::numeric_limits<uint32_t>::max());
  pcre2_set_heap_limit(rep->context.get(), std::numeric_limits<uint32_t>::max());
  return PreTokenizer(std::move(rep));
}

PreTokenizer::PreTokenizer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

bool PreTokenizer::takes_known_pieces_whole() const {
  return rep_->scheme->takes_known_pieces_whole;
}
bool PreTokenizer::adds_bos_by_default() const { return rep_->scheme->adds_bos_by_default; }

void PreTokenizer::Split(absl::string_view text,
                         absl::FunctionRef<void(absl::string_view)> piece) const {
  BATON_CHECK(text.size() < kMaxTextBytes, "text of a gibibyte or more");
  const std::unique_ptr<pcre2_match_data, FreePcre2> match(pcre2_match_data_create(1, nullptr));
  BATON_CHECK(match != nullptr, "out of memory");
  size_t begin = 0;
  bool well_formed = true;  // whether text[begin, end) is UTF-8
  for (size_t end = 0; end <= text.size();) {
    Utf8Unit unit{Utf8Unit::Kind::kInvalid, 1};
    if (end < text.size()) unit = NextUtf8Unit(text.substr(end));
    const bool is_character = unit.kind == Utf8Unit::Kind::kCharacter;
    if (end == text.size() || is_character != well_formed) {
      const absl::string_view run = text.substr(begin, end - begin);
      if (well_formed) {
        rep_->SplitCharacters(run, match.get(), piece);
      } else {
        piece(run);
      }
      begin = end;
      well_formed = is_character;
    }
    end += unit.size;
  }
}

void PreTokenizer::Rep::SplitCharacters(absl::string_view text, pcre2_match_data* match,
                                        absl::FunctionRef<void(absl::string_view)> piece) const {
  for (size_t position = 0; position < text.size();) {
    const size_t size = PieceSize(text, position, match);
    piece(text.substr(position, size));
    position += size;
  }
}

size_t PreTokenizer::Rep::PieceSize(absl::string_view text, size_t position,
                                    pcre2_match_data* match) const {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = pcre2_match(code.get(), subject, text.size(), position, PCRE2_NO_UTF_CHECK, match,
                           context.get());
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code.get(), subject, text.size(), position,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context.get());
  }
  if (result > 0) {
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    if (bounds[0] == position && bounds[1] > position) return bounds[1] - position;
  }
  return NextUtf8Unit(text.substr(position)).size;
}

}  // namespace baton
