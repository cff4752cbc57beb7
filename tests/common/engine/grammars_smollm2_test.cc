// SmolLM2's answers in grammars of its real vocabulary. Needs BATON_TEST_MODEL.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "tests/common/engine/smollm2_engine.h"
#include "tests/common/grammar/or_abort.h"
#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

constexpr char kSchema[] = R"({"type":"object","required":["name","legs","colours"],"properties":{
    "name":{"type":"string","maxLength":12},"legs":{"type":"integer","minimum":0,"maximum":999},
    "colours":{"type":"array","minItems":1,"maxItems":3,"items":{"enum":["black","white","red"]}}}})";
constexpr char kRegex[] = "[A-Z][a-z]{2,8} (is|was) born on 20[0-9]{2}-0[1-9]-2[0-8]";

std::vector<SequenceRequest> HeldRequests() {
  const std::vector<GrammarSpec> specs = {SpecOf(GrammarKind::kJsonSchema, kSchema),
                                          SpecOf(GrammarKind::kRegex, kRegex),
                                          ChoiceOf({"cat", "a small dog", "a small cat"})};
  std::vector<SequenceRequest> requests;
  for (uint64_t seed = 0; seed < 9; ++seed) {
    const std::vector<int32_t> prompt = OrAbort(SmolLm2Tokenizer().Encode(
        "<|im_start|>user\nDescribe my pet, a small black cat: {\"name\": \"Tom\", \"colours\": "
        "[\"black\"]}<|im_end|>\n<|im_start|>assistant\n",
        {.add_special_tokens = false, .parse_special = true}));
    SamplingParams sampling = {.max_tokens = 80, .seed = seed, .logprobs = 2};
    if (seed < 3) sampling.temperature = 0;
    if (seed > 5) sampling.frequency_penalty = 0.3f;
    requests.push_back(LocalRequest(prompt, sampling));
    const auto compiled = OrAbort(CompiledFor(specs[seed % specs.size()]));
    requests.back().grammar = OrAbort(StateAfter(*compiled, ""));
  }
  return requests;
}

void ExpectValid(size_t request, const std::string& text) {
  SCOPED_TRACE(text);
  if (request % 3 == 1) {
    EXPECT_TRUE(std::regex_match(text, std::regex(kRegex)));
  } else if (request % 3 == 2) {
    EXPECT_TRUE(text == "cat" || text == "a small dog" || text == "a small cat");
  } else {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(json.is_object());
    EXPECT_LE(json["name"].get<std::string>().size(), 48u);
    EXPECT_TRUE(json["legs"].is_number_unsigned() && json["legs"] <= 999);
    for (const auto& colour : json["colours"]) {
      EXPECT_TRUE(colour == "black" || colour == "white" || colour == "red");
    }
  }
}

TEST(SmolLm2Grammars, HoldItsAnswersAndGuessesChangeNoBitOfThem) {
  if (SmolLm2Path().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  EngineHarness::Options options = SmolLm2(SpeculationMode::kNone);
  options.engine.end_of_generation_ids = SmolLm2Tokenizer().end_of_generation_ids();
  EngineHarness plain(options);
  options.engine.speculation = SpeculationMode::kNgram;
  EngineHarness guessing(options);
  const std::vector<SequenceRequest> requests = HeldRequests();
  std::vector<SequenceId> ids;
  for (const SequenceRequest& request : requests) ids.push_back(guessing.Submit(request));
  guessing.Run();
  for (size_t i = 0; i < requests.size(); ++i) {
    const EventLog log = plain.RunAlone(requests[i]);
    ASSERT_TRUE(log.finished) << log.failure;
    EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kStop);
    ExpectValid(i, SmolLm2Tokenizer().Decode(log.token_ids(), /*skip_special_tokens=*/true));
    ExpectSameTokens(guessing.log(ids[i]).tokens, log.tokens);
  }
  EXPECT_GE(guessing.engine().Stats().accepted_guesses, 20u);
  EXPECT_GT(guessing.engine().Stats().refused_guesses, 0u);
}

// No name comes twice, so that nothing but the schema tells what follows.
TEST(SmolLm2Grammars, HaveMostOfTheTextThatTheyForceGuessedRightly) {
  if (SmolLm2Path().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  const std::vector<std::string> names = {"customer_reference_number", "preferredDeliveryAddress",
                                          "estimated arrival on site",
                                          "carrier-tracking-identifier"};
  nlohmann::json schema = {{"type", "object"}, {"required", names}};
  int forced = 0;  // tokens
  for (const std::string& name : names) {
    schema["properties"][name] = {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}};
    forced += static_cast<int>(TokensOf(name + "\":").size());
  }
  const auto compiled = OrAbort(CompiledSchema(schema.dump()));
  EngineHarness::Options options = SmolLm2(SpeculationMode::kNone);
  options.engine.end_of_generation_ids = SmolLm2Tokenizer().end_of_generation_ids();
  EngineHarness plain(options);
  options.engine.speculation = SpeculationMode::kNgram;
  EngineHarness guessing(options);
  for (const float temperature : {0.0f, 1.0f}) {
    SequenceRequest request =
        LocalRequest(TokensOf("A parcel as JSON:\n"),
                     {.temperature = temperature, .max_tokens = 120, .seed = 3, .logprobs = 2});
    request.grammar = OrAbort(StateAfter(*compiled, ""));
    const EventLog log = guessing.RunAlone(request);
    ASSERT_TRUE(log.finished) << log.failure;
    ExpectSameTokens(log.tokens, plain.RunAlone(request).tokens);
    EXPECT_GT(log.accepted_guesses * 10, forced * 8)
        << log.accepted_guesses << " of " << forced << ", and refused " << log.refused_guesses;
  }
}

}  // namespace
}  // namespace baton
