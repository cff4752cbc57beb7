// Answers questions about schemas for schemas_test.py: grammar_walks COMPILER. Each line of the
// input is a JSON object with
//   schema    a JSON schema, as text
//   texts     texts of which it asks whether the whole of each is valid by the grammar
//   walks     how many random answers it wants, of at most `tokens` tokens each, from `seed`
//   prefixes  lists of tokens after each of which it wants the mask
// and each line of the output has "error", or "accepted", "walks" and "masks". Bytes are in
// hexadecimal. The line {} asks for the vocabulary.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "common/base/status_macros.h"
#include "common/grammar/grammar_compiler.h"
#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

// What a schema costs is not the question here, and the machine may be busy.
const GrammarLimits kPatient = {.cpu_seconds = 60, .wall_time = absl::Seconds(120)};

using Json = nlohmann::json;
using Mask = std::vector<uint32_t>;

bool IsSet(const Mask& mask, int32_t token) { return mask[token / 32] >> (token % 32) & 1; }

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

absl::StatusOr<Mask> MaskOf(GrammarState& state) {
  Mask mask(MaskWords(SmolLm2Vocabulary().size()));
  BATON_RETURN_IF_ERROR(state.FillMask(absl::MakeSpan(mask)));
  return mask;
}

// Draws tokens from masks, and often those that lead to the end, since an answer has one.
class Walker {
 public:
  Walker(uint64_t seed, int tokens) : random_(seed), tokens_(tokens) {
    for (const char* text : {"\"", "}", "]"}) closing_.push_back(TokensOf(text).at(0));
  }

  absl::StatusOr<Json> Walk(const CompiledGrammar& grammar) {
    BATON_ASSIGN_OR_RETURN(GrammarState state, GrammarState::Create(grammar));
    std::vector<int32_t> ids;
    std::string text;
    while (!state.IsTerminated() && ids.size() < static_cast<size_t>(tokens_)) {
      BATON_ASSIGN_OR_RETURN(const Mask mask, MaskOf(state));
      const int32_t token = Draw(mask, static_cast<int>(ids.size()));
      BATON_RETURN_IF_ERROR(state.Accept(token));
      ids.push_back(token);
      if (!state.IsTerminated()) absl::StrAppend(&text, SmolLm2Tokenizer().TokenBytes(token));
    }
    return Json{{"ids", ids}, {"text", Hex(text)}, {"finished", state.IsTerminated()}};
  }

 private:
  uint64_t Below(uint64_t count) { return random_() % count; }

  int32_t Draw(const Mask& mask, int step) {
    const bool late = step > tokens_ / 2;
    for (const std::vector<int32_t>& preferred :
         {SmolLm2Tokenizer().end_of_generation_ids(), closing_}) {
      std::vector<int32_t> allowed;
      for (const int32_t token : preferred) {
        if (IsSet(mask, token)) allowed.push_back(token);
      }
      if (!allowed.empty() && (late || Below(4) == 0)) return allowed[Below(allowed.size())];
    }
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < SmolLm2Vocabulary().size(); ++token) {
      if (IsSet(mask, token)) allowed.push_back(token);
    }
    return allowed[Below(allowed.size())];
  }

  std::mt19937_64 random_;
  int tokens_;
  std::vector<int32_t> closing_;
};

Json VocabularyAnswer() {
  const Tokenizer& tokenizer = SmolLm2Tokenizer();
  Json tokens = Json::array();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    tokens.push_back(tokenizer.IsSpecial(id) ? "" : Hex(tokenizer.TokenBytes(id)));
  }
  return {{"tokens", std::move(tokens)}, {"ends", tokenizer.end_of_generation_ids()}};
}

absl::StatusOr<Json> Answer(const GrammarCompiler& compiler, const Json& asked) {
  BATON_ASSIGN_OR_RETURN(
      const std::string bytes,
      compiler.Compile(SpecOf(GrammarKind::kJsonSchema, asked["schema"].get<std::string>()),
                       [] { return true; }));
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CompiledGrammar> grammar,
                         CompiledGrammar::Parse(bytes, SmolLm2Vocabulary()));
  Json answer = {{"accepted", Json::array()}, {"walks", Json::array()}, {"masks", Json::array()}};
  for (const Json& text : asked.value("texts", Json::array())) {
    answer["accepted"].push_back(Allows(*grammar, text.get<std::string>()));
  }
  Walker walker(asked.value("seed", 0), asked.value("tokens", 0));
  for (int i = 0; i < asked.value("walks", 0); ++i) {
    BATON_ASSIGN_OR_RETURN(Json walk, walker.Walk(*grammar));
    answer["walks"].push_back(std::move(walk));
  }
  for (const Json& prefix : asked.value("prefixes", Json::array())) {
    BATON_ASSIGN_OR_RETURN(GrammarState state, GrammarState::Create(*grammar));
    BATON_RETURN_IF_ERROR(state.Replay(prefix.get<std::vector<int32_t>>()));
    BATON_ASSIGN_OR_RETURN(const Mask mask, MaskOf(state));
    answer["masks"].push_back(
        Hex({reinterpret_cast<const char*>(mask.data()), mask.size() * sizeof(mask[0])}));
  }
  return answer;
}

}  // namespace
}  // namespace baton

int main(int, char** argv) {
  const auto compiler = baton::GrammarCompiler::Create(
      argv[1], SerializeVocabulary(baton::SmolLm2Tokenizer()), baton::kPatient);
  if (!compiler.ok()) {
    std::cerr << compiler.status() << "\n";
    return 2;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const baton::Json asked = baton::Json::parse(line);
    const absl::StatusOr<baton::Json> answer =
        asked.empty() ? baton::VocabularyAnswer() : baton::Answer(**compiler, asked);
    if (answer.ok()) {
      std::cout << answer->dump() << "\n";
    } else {
      std::cout << baton::Json{{"error", std::string(answer.status().message())}}.dump() << "\n";
    }
  }
}
