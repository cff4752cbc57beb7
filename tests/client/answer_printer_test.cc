#include "client/answer_printer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/pseudo_terminal.h"

namespace baton {
namespace {

// An answer whose events come one by one, and the text that is printed of it.
class AnswerPrinterTest : public ::testing::Test {
 protected:
  AnswerPrinterTest() { testing::internal::CaptureStdout(); }
  void Choices(size_t count) { answer_.choices.resize(count); }
  void Text(uint32_t index, const std::string& text) {
    answer_.choices[index].mutable_text()->append(text);
    v1::GenerateResponse event;
    event.mutable_chunk()->set_index(index);
    event.mutable_chunk()->set_text(text);
    printer_.Take(event);
  }
  void Complete(uint32_t index) {
    answer_.choices[index].set_finish_reason(v1::FINISH_REASON_STOP);
    v1::GenerateResponse event;
    event.mutable_complete()->set_index(index);
    printer_.Take(event);
  }
  std::string End(absl::Status status = absl::OkStatus()) {
    answer_.status = std::move(status);
    printer_.End();
    return testing::internal::GetCapturedStdout();
  }

  Answer answer_;
  AnswerPrinter printer_{answer_};
};

TEST_F(AnswerPrinterTest, ShowsTheOnlyChoiceAsItComes) {
  Choices(1);
  Text(0, "Hello");
  Text(0, " you");
  Complete(0);
  EXPECT_EQ(End(), "Hello you\n");
}

TEST_F(AnswerPrinterTest, ShowsSeveralChoicesAsBlocksInTheirOrder) {
  Choices(3);
  Text(2, "third");
  Text(0, "fi");
  Complete(2);
  Text(1, "second");
  Text(0, "rst");
  Complete(0);
  Complete(1);
  EXPECT_EQ(End(), "choice 1 of 3:\nfirst\n\nchoice 2 of 3:\nsecond\n\nchoice 3 of 3:\nthird\n");
}

TEST_F(AnswerPrinterTest, AnEmptyAnswerIsALine) {
  Choices(1);
  Complete(0);
  EXPECT_EQ(End(), "\n");
}

TEST_F(AnswerPrinterTest, AFailureBeforeAnyTextPrintsNothing) {
  Choices(1);
  EXPECT_EQ(End(absl::UnavailableError("gone")), "");
}

TEST_F(AnswerPrinterTest, AFailureAfterSomeTextEndsItsLine) {
  Choices(1);
  Text(0, "Hel");
  EXPECT_EQ(End(absl::UnavailableError("gone")), "Hel\n");
}

// Prints the pieces of a single choice's text.
void PrintPieces(const std::vector<std::string>& pieces) {
  Answer answer;
  answer.choices.resize(1);
  AnswerPrinter printer(answer);
  for (const std::string& piece : pieces) {
    answer.choices[0].mutable_text()->append(piece);
    v1::GenerateResponse event;
    event.mutable_chunk()->set_text(piece);
    printer.Take(event);
  }
  printer.End();
}

TEST(AnswerPrinterOutput, OnATerminalEscapesInAnAnswerAreShownAndNotInterpreted) {
  const std::vector<std::string> pieces = {"\x1b", "]0;pwned\x07 Gr\xc3", "\xbc\xc3\x9f", "e\r",
                                           "\nx"};
  EXPECT_EQ(ShownOnTerminal(STDOUT_FILENO, [&] { PrintPieces(pieces); }),
            "\\u001b]0;pwned\\u0007 Gr\u00fc\u00dfe\nx\n");
}

TEST(AnswerPrinterOutput, ElsewhereAnAnswerIsByteForByteAsItCame) {
  testing::internal::CaptureStdout();
  PrintPieces({"\x1b]0;pwned\x07 Gr\xc3", "\xbc\r", "\nx"});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\x1b]0;pwned\x07 Gr\u00fc\r\nx\n");
}

}  // namespace
}  // namespace baton
