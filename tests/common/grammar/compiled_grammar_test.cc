#include "common/grammar/compiled_grammar.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/base/hash.h"
#include "common/grammar/compile_grammar.h"
#include "common/grammar/packed_text.h"
#include "common/grammar/string_list.h"
#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

const std::string& SampleBytes() {
  static const auto* const bytes =
      new std::string(*CompileGrammar(SpecOf(GrammarKind::kJsonSchema,
                                             R"({"type":"object","required":["a","b"],"properties":{
                 "a":{"type":"array","items":{"enum":["x","y"]},"maxItems":40},
                 "b":{"type":"string","pattern":"^[a-f]{2,9}$"}}})"),
                                      SmolLm2Vocabulary()));
  return *bytes;
}

// What Serialize would make of this JSON.
std::string Sealed(absl::string_view json) {
  const std::string packed = PackText(json);
  const Hash128 hash = ChainHash({}, packed);
  std::string bytes;
  AppendString("baton grammar 2", bytes);
  AppendString(SmolLm2Vocabulary().digest(), bytes);
  AppendString(
      absl::StrCat(absl::Hex(hash.high, absl::kZeroPad16), absl::Hex(hash.low, absl::kZeroPad16)),
      bytes);
  AppendString(packed, bytes);
  return bytes;
}

TEST(CompiledGrammars, ComeBackFromTheirBytes) {
  const auto grammar = CompiledGrammar::Parse(SampleBytes(), SmolLm2Vocabulary());
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  EXPECT_TRUE(Allows(**grammar, R"({"a":["x","y"],"b":"abc"})"));
  EXPECT_FALSE(Allows(**grammar, R"({"a":["z"],"b":"abc"})"));
  const absl::StatusOr<std::string> again = (*grammar)->Serialize(SmolLm2Vocabulary());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->size(), SampleBytes().size());
}

TEST(CompiledGrammars, ThoseOfAnotherVocabularyAreRefused) {
  std::string other;
  AppendString("another digest", other);
  AppendString("0", other);
  for (const char* token : {"", "a", "b"}) AppendString(token, other);
  const auto vocabulary = GrammarVocabulary::Parse(other);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(CompiledGrammar::Parse(SampleBytes(), **vocabulary).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CompiledGrammars, DamagedBytesAreAnError) {
  const std::string& whole = SampleBytes();
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    EXPECT_FALSE(CompiledGrammar::Parse(bytes, SmolLm2Vocabulary()).ok());
    EXPECT_FALSE(
        CompiledGrammar::Parse(whole.substr(0, random() % whole.size()), SmolLm2Vocabulary()).ok());
  }
}

// Grammars that were changed on purpose, so that their checksums agree: they may allow something
// else, but neither they nor their masks may harm.
TEST(CompiledGrammars, ForgedOnesDoNoHarm) {
  const auto parts = *ReadStrings(SampleBytes());
  const std::string json = *UnpackText(parts[3], kMaxCompiledGrammarBytes);
  std::mt19937_64 random(11);
  std::vector<uint32_t> mask(MaskWords(SmolLm2Vocabulary().size()));
  int parsed = 0;
  for (int i = 0; i < 400; ++i) {
    std::string forged = json;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % forged.size();
      constexpr char kBytes[] = "0123456789-,[]{}\":";
      forged[at] = kBytes[random() % (sizeof(kBytes) - 1)];
    }
    const auto grammar = CompiledGrammar::Parse(Sealed(forged), SmolLm2Vocabulary());
    if (!grammar.ok()) continue;
    ++parsed;
    absl::StatusOr<GrammarState> state = GrammarState::Create(**grammar);
    for (int step = 0; step < 8 && state.ok() && state->FillMask(absl::MakeSpan(mask)).ok();
         ++step) {
      int32_t token = static_cast<int32_t>(random() % SmolLm2Vocabulary().size());
      while ((mask[token / 32] >> (token % 32) & 1) == 0) {
        token = (token + 1) % SmolLm2Vocabulary().size();
      }
      if (!state->Accept(token).ok()) break;
    }
  }
  EXPECT_GT(parsed, 0);  // else the test reads no forged grammar at all
  for (const absl::string_view nothing : {"", "{}", "[]", "null", "3", "\"\""}) {
    EXPECT_FALSE(CompiledGrammar::Parse(Sealed(nothing), SmolLm2Vocabulary()).ok()) << nothing;
  }
  EXPECT_FALSE(CompiledGrammar::Parse(Sealed(std::string(100'000, '[')), SmolLm2Vocabulary()).ok());
  EXPECT_EQ(CompiledGrammar::Parse(Sealed(std::string(kMaxCompiledGrammarBytes + 1, ' ')),
                                   SmolLm2Vocabulary())
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton
