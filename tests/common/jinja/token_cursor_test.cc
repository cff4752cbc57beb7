#include "common/jinja/token_cursor.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/jinja/parser.h"

namespace baton::jinja {
namespace {

// A cursor on the first token inside {{ ... }}.
class Inside {
 public:
  explicit Inside(absl::string_view expression)
      : tokens_(*Tokenize(absl::StrCat("{{ ", expression, " }}"))), cursor_(tokens_) {
    cursor_.Next();
  }
  TokenCursor* operator->() { return &cursor_; }
  TokenCursor& operator*() { return cursor_; }

 private:
  std::vector<Token> tokens_;
  TokenCursor cursor_;
};

TEST(TokenCursor, StaysAtTheEnd) {
  const std::vector<Token> tokens = *Tokenize("");
  TokenCursor cursor(tokens);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cursor.Next().kind, TokenKind::kEnd);
  EXPECT_EQ(cursor.PeekSecond().kind, TokenKind::kEnd);
  EXPECT_EQ(cursor.Unexpected(),
            absl::InvalidArgumentError("chat template line 1: unexpected end of the template"));
}

TEST(TokenCursor, PeeksAtTwoTokensWithoutMoving) {
  Inside cursor("a + b");
  EXPECT_EQ(cursor->Peek().text, "a");
  EXPECT_EQ(cursor->PeekSecond().text, "+");
  EXPECT_EQ(cursor->Next().text, "a");
  EXPECT_EQ(cursor->Peek().text, "+");
}

TEST(TokenCursor, TakesOnlyWhatIsThere) {
  Inside cursor("if + '+' if");
  EXPECT_FALSE(cursor->TakeOperator("if"));
  EXPECT_FALSE(cursor->TakeName("else"));
  EXPECT_TRUE(cursor->TakeName("if"));
  EXPECT_FALSE(cursor->TakeName("+"));
  EXPECT_TRUE(cursor->TakeOperator("+"));
  EXPECT_FALSE(cursor->AtOperator("+"));  // a string
  EXPECT_EQ(cursor->ExpectOperator("]"),
            absl::InvalidArgumentError("chat template line 1: expected ']' before '+'"));
}

TEST(TokenCursor, AVariableIsANameThatIsNotReserved) {
  EXPECT_EQ(*Inside("iff")->ExpectVariable(), "iff");
  for (const std::string word : {"and", "or", "not", "if", "else", "in", "is", "1", "'a'", "+"}) {
    Inside cursor(word);
    EXPECT_FALSE(cursor->ExpectVariable().ok()) << word;
    EXPECT_FALSE(cursor->Unexpected().ok()) << word;
    EXPECT_NE(cursor->Peek().kind, TokenKind::kOutputEnd) << word;  // it did not move
  }
}

TEST(TokenCursor, NestingEndsWithItsScopeAndIsBounded) {
  Inside cursor("a");
  std::vector<std::unique_ptr<TokenCursor::Nesting>> levels;
  for (int i = 0; i < kMaxNesting; ++i) {
    levels.push_back(std::make_unique<TokenCursor::Nesting>(*cursor));
    EXPECT_TRUE(levels.back()->Check().ok()) << i;
  }
  levels.push_back(std::make_unique<TokenCursor::Nesting>(*cursor));
  EXPECT_EQ(levels.back()->Check(),
            absl::InvalidArgumentError("chat template line 1: nested deeper than 100"));
  levels.pop_back();
  levels.pop_back();
  EXPECT_TRUE(TokenCursor::Nesting(*cursor).Check().ok());
}

}  // namespace
}  // namespace baton::jinja
