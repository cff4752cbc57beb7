// Answers by masks are UTF-8, with a vocabulary of all bytes and of tokens that begin and end
// within a character.
#include "common/grammar/utf8_tokens.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/utf8.h"
#include "common/grammar/compile_grammar.h"
#include "common/grammar/compiled_grammar.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/grammar_vocabulary.h"
#include "tests/common/grammar/byte_vocabulary.h"
#include "tests/common/grammar/or_abort.h"
#include "tests/common/grammar/specs.h"

namespace baton {
namespace {

int32_t TokenOf(const std::string& text) {
  const auto found = std::find(ByteTexts().begin(), ByteTexts().end(), text);
  return static_cast<int32_t>(found - ByteTexts().begin());
}

std::unique_ptr<CompiledGrammar> Compiled(const GrammarSpec& spec) {
  return OrAbort(
      CompiledGrammar::Parse(OrAbort(CompileGrammar(spec, ByteVocabulary())), ByteVocabulary()));
}

// The tokens are the bytes of the text.
std::vector<int32_t> BytesOf(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

GrammarState StateBehind(const CompiledGrammar& grammar, const std::vector<int32_t>& tokens) {
  GrammarState state = OrAbort(GrammarState::Create(grammar));
  const absl::Status replayed = state.Replay(tokens);
  EXPECT_TRUE(replayed.ok()) << replayed;
  return state;
}

std::vector<uint32_t> MaskOf(GrammarState& state) {
  std::vector<uint32_t> mask(MaskWords(state.vocab_size()));
  const absl::Status status = state.FillMask(absl::MakeSpan(mask));
  EXPECT_TRUE(status.ok()) << status;
  return mask;
}

std::vector<int32_t> AllowedBy(const std::vector<uint32_t>& mask) {
  std::vector<int32_t> allowed;
  for (int32_t token = 0; token < ByteVocabulary().size(); ++token) {
    if (MaskAllows(mask.data(), token)) allowed.push_back(token);
  }
  return allowed;
}

// Characters, and at most the beginning of one more.
bool IsUtf8SoFar(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Unit unit = NextUtf8Unit(text);
    if (unit.kind == Utf8Unit::Kind::kInvalid) return false;
    text.remove_prefix(unit.size);
  }
  return true;
}

// Draws tokens from masks, mostly those that leave a byte open or end within a character.
class Walker {
 public:
  explicit Walker(const CompiledGrammar& grammar) : grammar_(grammar) {}

  // An answer of at most `most` tokens behind `begin`, each step of which is looked at.
  void Walk(const std::string& begin, size_t most) {
    std::vector<int32_t> tokens = BytesOf(begin);
    std::string text = begin;
    GrammarState state = StateBehind(grammar_, tokens);
    while (tokens.size() < begin.size() + most) {
      const std::vector<uint32_t> mask = MaskOf(state);
      const int32_t token = Draw(AllowedBy(mask));
      if (token < 0 || token == kByteEnd) return;
      LookAt(state, mask, tokens, token);
      ASSERT_TRUE(state.Accept(token).ok()) << token;
      tokens.push_back(token);
      text += ByteTexts()[static_cast<size_t>(token)];
      ++ends_[static_cast<uint8_t>(text.back())];
      ASSERT_TRUE(IsUtf8SoFar(text)) << ::testing::PrintToString(text);
    }
  }

  // How many texts, up to one token or another, ended with the byte.
  int ends(uint8_t byte) { return ends_[byte]; }

 private:
  // -1: there is none.
  int32_t Draw(const std::vector<int32_t>& allowed) {
    std::vector<int32_t> within, open;
    for (const int32_t token : allowed) {
      const std::string& text = ByteTexts()[static_cast<size_t>(token)];
      const bool part = !text.empty() && text.front() != kSpecialTokenByte && !IsUtf8(text);
      if (part || text == "a") within.push_back(token);
      if (Utf8Tokens::OpenByte(text) != 0) open.push_back(token);
    }
    for (const std::vector<int32_t>& from : {open, within}) {
      if (!from.empty() && random_() % 2 == 0) return from[random_() % from.size()];
    }
    return allowed.empty() ? -1 : allowed[random_() % allowed.size()];
  }

  // What the state says in all ways has to be what the mask says.
  void LookAt(GrammarState& state, const std::vector<uint32_t>& mask,
              const std::vector<int32_t>& tokens, int32_t drawn) {
    for (int32_t token = 0; token < ByteVocabulary().size(); ++token) {
      const bool allowed =
          state.CountAllowed({token}) == 1 || (token == kByteEnd && state.IsComplete());
      ASSERT_EQ(allowed, MaskAllows(mask.data(), token)) << token;
    }
    ASSERT_EQ(MaskOf(state), mask) << "counting left something behind";
    GrammarState resumed = StateBehind(grammar_, tokens);
    ASSERT_EQ(MaskOf(resumed), mask);
    std::vector<uint32_t> masks(2 * mask.size());
    state.FillMasks({drawn}, absl::MakeSpan(masks));
    GrammarState copy = state;
    ASSERT_TRUE(copy.Accept(drawn).ok());
    ASSERT_EQ(std::vector<uint32_t>(masks.begin() + static_cast<std::ptrdiff_t>(mask.size()),
                                    masks.end()),
              MaskOf(copy));
    copy.Rollback(1);
    ASSERT_EQ(MaskOf(copy), mask);
  }

  const CompiledGrammar& grammar_;
  std::mt19937_64 random_{1};
  std::map<uint8_t, int> ends_;
};

TEST(Utf8Masks, AnAnswerInEachFormIsUtf8) {
  const struct {
    GrammarSpec spec;
    std::string begin;
  } cases[] = {
      {GrammarSpec(), "{\""},
      {SpecOf(GrammarKind::kJsonSchema, R"({"type":"string"})"), "\""},
      {SpecOf(GrammarKind::kJsonSchema, R"({"type":"string","pattern":"^[^b]*$"})"), "\""},
      {SpecOf(GrammarKind::kJsonSchema, R"({"type":"string","minLength":3})"), "\""},
      {SpecOf(GrammarKind::kRegex, "[^b]*"), ""},
      {SpecOf(GrammarKind::kRegex, "([\\u0780-\\u0810]|a\\ud7ff*)*"), ""},
      {SpecOf(GrammarKind::kGrammar, "root ::= [^b]* \"c\" root | \"d\""), ""},
      {TagsOf({{.begin = "<", .schema = R"({"type":"string"})", .end = ">"}}), "<\""},
  };
  for (const auto& [spec, begin] : cases) {
    SCOPED_TRACE(std::string(GrammarField(spec.kind)) + " " + spec.text);
    const std::unique_ptr<CompiledGrammar> grammar = Compiled(spec);
    Walker walker(*grammar);
    for (int i = 0; i < 40 && !HasFatalFailure(); ++i) walker.Walk(begin, 12);
    EXPECT_GT(std::min(walker.ends(0xe0), walker.ends(0xed)), 5) << "what is narrow was hardly met";
  }
}

// Halves of pairs alone may follow ED there.
TEST(Utf8Masks, AByteThatNothingCouldFollowMayNotComeNext) {
  for (const GrammarKind kind : {GrammarKind::kRegex, GrammarKind::kGrammar}) {
    const std::string before = kind == GrammarKind::kGrammar ? "root ::= " : "";
    const std::unique_ptr<CompiledGrammar> above =
        Compiled(SpecOf(kind, before + "[^\\u0000-\\ud7ff]*"));
    GrammarState state = StateBehind(*above, {});
    const std::vector<uint32_t> mask = MaskOf(state);
    for (const char* text : {"\xed", "\xed\xed", "\xed\x9f", "\xed\xa0\x80"}) {
      EXPECT_FALSE(MaskAllows(mask.data(), TokenOf(text))) << ::testing::PrintToString(text);
      EXPECT_FALSE(state.Accept(TokenOf(text)).ok());
    }
    EXPECT_TRUE(MaskAllows(mask.data(), TokenOf("\xee")));
    EXPECT_TRUE(MaskAllows(mask.data(), TokenOf("\xf0\x9f\x98")));
    Walker walker(*above);
    for (int i = 0; i < 10 && !HasFatalFailure(); ++i) walker.Walk("", 12);
    EXPECT_EQ(walker.ends(0xed), 0);
  }
}

TEST(Utf8Masks, OfTwoWaysTheOneWithHalfAPairIsNone) {
  const CompiledGrammar grammar =
      CompiledAsItIs(xgrammar::Grammar::FromRegex("(a[\\ud83d][\\ude00]|a[\\ud7fe-\\udfff]|ab)"));
  GrammarState state = StateBehind(grammar, BytesOf("a"));
  EXPECT_EQ(AllowedBy(MaskOf(state)), (std::vector<int32_t>{'b', 0xed, TokenOf("\xed\x9f")}));
  ASSERT_TRUE(state.Accept(0xed).ok());
  EXPECT_EQ(AllowedBy(MaskOf(state)), (std::vector<int32_t>{0x9f, TokenOf("\x9f\xbf")}));
}

TEST(Utf8Masks, WithoutAWayOnSaySo) {
  const CompiledGrammar grammar =
      CompiledAsItIs(xgrammar::Grammar::FromRegex("ab[\\ud83d][\\ude00]c"));
  GrammarState state = StateBehind(grammar, BytesOf("ab"));
  std::vector<uint32_t> mask(MaskWords(state.vocab_size()));
  EXPECT_EQ(state.FillMask(absl::MakeSpan(mask)),
            absl::FailedPreconditionError("the grammar allows no token at this place"));
  std::vector<uint32_t> masks(3 * mask.size());
  GrammarState before = StateBehind(grammar, {});
  before.FillMasks(BytesOf("ab"), absl::MakeSpan(masks));
  EXPECT_TRUE(MaskAllows(masks.data(), 'a') && MaskAllows(masks.data() + mask.size(), 'b'));
  EXPECT_EQ(std::count(masks.end() - static_cast<std::ptrdiff_t>(mask.size()), masks.end(), 0u),
            static_cast<std::ptrdiff_t>(mask.size()));
}

TEST(Utf8Tokens, ASpecialTokensLiteralIsNoText) {
  const Utf8Tokens utf8({"\xff\xc0\xed", "\xed", "\xc0"});
  EXPECT_EQ(Utf8Tokens::OpenByte("\xff\xc0\xed"), 0);
  EXPECT_FALSE(utf8.IsForbidden('\xed', 0));
  EXPECT_TRUE(utf8.IsForbidden(0, 2));
  EXPECT_EQ(std::vector<int32_t>(utf8.ending_open().begin(), utf8.ending_open().end()),
            std::vector<int32_t>{1});
  EXPECT_TRUE(utf8.Next('\xed').empty());
}

}  // namespace
}  // namespace baton
