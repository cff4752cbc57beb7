#include "router/tools/tool_form.h"

#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

using Kind = ToolFormKind;

std::string Read(const std::string& name) {
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/templates/", name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The templates of public.jsonl by name.
std::map<std::string, std::string> PublicTemplates() {
  std::map<std::string, std::string> templates;
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/templates/public.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("template")) templates[json["name"]] = json["template"];
  }
  return templates;
}

TEST(ToolForms, EachPublicTemplateHasItsFamily) {
  const std::map<std::string, Kind> families = {
      {"Bielik-11B-v3.0-Instruct.jinja", Kind::kHermes},
      {"MiMo-VL.jinja", Kind::kHermes},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", Kind::kHermes},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", Kind::kHermes},
      {"Qwen-QwQ-32B.jinja", Kind::kHermes},
      {"Qwen-Qwen2.5-7B-Instruct.jinja", Kind::kHermes},
      {"Qwen-Qwen3-0.6B.jinja", Kind::kHermes},
      {"Reka-Edge.jinja", Kind::kHermes},
      {"ibm-granite-granite-4.0.jinja", Kind::kHermes},
      {"ibm-granite-granite-4.1.jinja", Kind::kHermes},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", Kind::kQwenXml},
      {"Qwen3-Coder.jinja", Kind::kQwenXml},
      {"Qwen3.5-4B.jinja", Kind::kQwenXml},
      {"StepFun3.5-Flash.jinja", Kind::kQwenXml},
      {"meta-llama-Llama-3.1-8B-Instruct.jinja", Kind::kLlama3},
      {"meta-llama-Llama-3.2-3B-Instruct.jinja", Kind::kLlama3},
      {"meta-llama-Llama-3.3-70B-Instruct.jinja", Kind::kLlama3},
      {"mistralai-Mistral-Nemo-Instruct-2407.jinja", Kind::kMistral},
      {"Mistral-Small-3.2-24B-Instruct-2506.jinja", Kind::kMistralV13},
      {"mistralai-Ministral-3-14B-Reasoning-2512.jinja", Kind::kMistralV13},
      {"unsloth-mistral-Devstral-Small-2507.jinja", Kind::kMistralV13},
      {"ibm-granite-granite-3.3-2B-Instruct.jinja", Kind::kGranite},
      {"openai-gpt-oss-120b.jinja", Kind::kHarmony},
      {"llm-jp-llm-jp-4.1-8b-thinking.jinja", Kind::kHarmony},
  };
  const std::map<std::string, std::string> templates = PublicTemplates();
  ASSERT_EQ(templates.size(), 71u);
  for (const auto& [name, kind] : families) EXPECT_TRUE(templates.contains(name)) << name;
  for (const auto& [name, source] : templates) {
    const auto family = families.find(name);
    EXPECT_EQ(ToolForm::OfTemplate(source).kind(),
              family == families.end() ? Kind::kGeneric : family->second)
        << name;
  }
  EXPECT_EQ(ToolForm::OfTemplate(Read("phi4_mini.jinja")).kind(), Kind::kPhi4);
  EXPECT_EQ(ToolForm::OfTemplate(Read("smollm2.jinja")).kind(), Kind::kGeneric);
  EXPECT_EQ(ToolForm::OfTemplate("").kind(), Kind::kGeneric);
}

TEST(ToolForms, KnowWhichModelsReason) {
  const std::map<std::string, std::string> templates = PublicTemplates();
  for (const char* name :
       {"Qwen-Qwen3-0.6B.jinja", "HuggingFaceTB-SmolLM3-3B.jinja", "openai-gpt-oss-120b.jinja",
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
        "mistralai-Ministral-3-14B-Reasoning-2512.jinja"}) {
    EXPECT_TRUE(ToolForm::OfTemplate(templates.at(name)).has_reasoning()) << name;
  }
  for (const char* name : {"Qwen-Qwen2.5-7B-Instruct.jinja", "google-gemma-2-2b-it.jinja",
                           "meta-llama-Llama-3.2-3B-Instruct.jinja"}) {
    EXPECT_FALSE(ToolForm::OfTemplate(templates.at(name)).has_reasoning()) << name;
  }
}

TEST(ToolForms, NeedSpecialTokensWhereAMarkerIsOne) {
  const auto needs = [](absl::string_view source, absl::string_view special) {
    return ToolForm::OfTemplate(source, [&](absl::string_view text) { return text == special; })
        .needs_special_tokens();
  };
  EXPECT_TRUE(needs("{{ tools }}[TOOL_CALLS]", "[TOOL_CALLS]"));
  EXPECT_FALSE(needs("{{ tools }}[TOOL_CALLS]", "[ARGS]"));
  EXPECT_TRUE(needs("{{ tools }}[TOOL_CALLS][ARGS]", "[ARGS]"));
  EXPECT_TRUE(needs("<think></think>", "</think>"));
  EXPECT_TRUE(needs("{{ tools }}<|channel|><|message|>commentary", "<|channel|>"));
  // A call of Llama 3 is one without the marker too.
  EXPECT_FALSE(needs("{{ tools }}<|start_header_id|>ipython\"parameters\": ", "<|python_tag|>"));
}

}  // namespace
}  // namespace baton
