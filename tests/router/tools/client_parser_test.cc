#include "router/tools/client_parser.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "tests/router/api/scripted_parser.h"

namespace baton {
namespace {

std::shared_ptr<const ToolTable> SomeTools() {
  auto table = std::make_shared<ToolTable>();
  table->Add({.name = "run"});
  table->Add({.space = "mcp__clock", .name = "time_in"});
  table->Add({.name = "apply_patch", .is_custom = true});
  table->Add({.space = "edit", .name = "write", .is_custom = true});
  return table;
}

// The parts of a scripted answer, cut into pieces of so many bytes: "text", "<space|name>" of a
// call, or "<space|name!>" of a custom tool's, and what it is given.
std::string Shown(const std::string& answer, size_t piece_bytes) {
  const auto parser = ForClient(NewScriptedParser(), SomeTools());
  std::vector<AnswerPart> parts;
  const auto take = [&](std::vector<AnswerPart> more) {
    for (AnswerPart& part : more) parts.push_back(std::move(part));
  };
  for (size_t at = 0; at < answer.size(); at += piece_bytes) {
    take(parser->Add(answer.substr(at, piece_bytes)));
  }
  take(parser->Finish());
  std::string shown;
  int call = -1;
  for (const AnswerPart& part : parts) {
    if (part.kind == AnswerPart::Kind::kCall) {
      absl::StrAppend(&shown, "<", part.space, "|", part.name, part.is_custom ? "!" : "", ">");
      call = part.call;
    }
    if (part.kind == AnswerPart::Kind::kArguments) {
      EXPECT_EQ(part.call, call);
    }
    shown += part.text;
  }
  return shown;
}

TEST(ClientParser, CallsHaveTheClientsNamesHoweverTheAnswerIsCut) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Hi~crun~a{\"a\": 1}", "Hi<|run>{\"a\": 1}"},
      {"~cmcp__clock__time_in~a{\"city\": \"Rome\"}~tso",
       "<mcp__clock|time_in>{\"city\": \"Rome\"}so"},
      {"~capply_patch~a{\"input\": \"a\\nb\"}~cmcp__clock__time_in~a{}",
       "<|apply_patch!>a\nb<mcp__clock|time_in>{}"},
      {"~cedit__write~a{\"input\": \"x\"}~cedit__write~a{\"text\": 1}",
       "<edit|write!>x<edit|write!>{\"text\": 1}"},
      {"~capply_patch~aa patch~tand text", "<|apply_patch!>a patchand text"},
      {"~capply_patch~a", "<|apply_patch!>"},
      // A name that is not in the table stays whole, also one with "__".
      {"~cmcp__clock__stop~a{}", "<|mcp__clock__stop>{}"},
      {"~ctime_in~a{}", "<|time_in>{}"},
  };
  for (const auto& [answer, shown] : cases) {
    for (const size_t piece_bytes : {size_t{1}, size_t{2}, size_t{5}, answer.size()}) {
      EXPECT_EQ(Shown(answer, piece_bytes), shown) << answer << " by " << piece_bytes;
    }
  }
}

TEST(ClientParser, AParserStaysItselfWhereNothingIsTranslated) {
  auto table = std::make_shared<ToolTable>();
  table->Add({.name = "run"});
  auto parser = NewScriptedParser();
  const AnswerParser* const before = parser.get();
  EXPECT_EQ(ForClient(std::move(parser), std::move(table)).get(), before);
}

TEST(ClientParser, TokenIdsReachTheParserOfTheAnswer) {
  class Counter final : public AnswerParser {
   public:
    explicit Counter(size_t& ids) : ids_(ids) {}
    void AddTokens(absl::Span<const uint32_t> ids) override { ids_ += ids.size(); }
    std::vector<AnswerPart> Add(absl::string_view) override { return {}; }
    std::vector<AnswerPart> Finish() override { return {}; }

   private:
    size_t& ids_;
  };
  size_t ids = 0;
  ForClient(std::make_unique<Counter>(ids), SomeTools())->AddTokens({1, 2, 3});
  EXPECT_EQ(ids, 3u);
}

}  // namespace
}  // namespace baton
