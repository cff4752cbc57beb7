#include "router/front/served_model.h"

#include <atomic>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::string& chat_template,
                                                  const v1::SamplingParams& defaults = {}) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Uint32("llama.context_length", 100)
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", {"a", "b"})
      .Int32s("tokenizer.ggml.token_type", {1, 1})
      .Texts("tokenizer.ggml.merges", {})
      .Text("tokenizer.chat_template", chat_template);
  const auto file = GgufFile::Parse(builder.Build(), "small.gguf", GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  return ServedModel::Load(*file, "", defaults);
}

// What a chat with a model of that template ends with.
absl::Status Prepared(const std::string& chat_template, bool stopping) {
  const auto model = Load(chat_template);
  if (!model.ok()) return model.status();
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  const std::atomic<bool> stops = stopping;
  return (*model)->Prepare(request, {}, Disaggregation::kAlways, 0, stops).status();
}

constexpr char kEndless[] =
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";

TEST(ServedModel, AnErrorOfACostlyChatTemplateNamesItAndTheRemedy) {
  const absl::Status status = Prepared(kEndless, false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("chat.messages"), HasSubstr("chat template line 1: more than"),
                    HasSubstr("send fewer or shorter messages"), HasSubstr("model 'small'")));
}

TEST(ServedModel, AChatTemplateEndsWhenTheRouterStops) {
  EXPECT_THAT(std::string(Prepared(kEndless, true).message()), HasSubstr("cancelled"));
}

TEST(ServedModel, AFieldHasTheClientsValueElseTheModelsElseTheApis) {
  v1::SamplingParams defaults;
  defaults.set_temperature(0.6F);
  defaults.set_top_k(20);
  defaults.set_top_p(0.95F);
  const auto model = Load("x", defaults);
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest request;
  request.set_prompt("ab");
  request.mutable_sampling_params()->set_temperature(0);
  request.mutable_sampling_params()->set_top_k(0);
  request.mutable_sampling_params()->add_stop("b");
  const std::atomic<bool> stops = false;
  const auto spec = (*model)->Prepare(request, {}, Disaggregation::kAlways, 7, stops);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->sampling.has_temperature());
  EXPECT_EQ(spec->sampling.temperature(), 0);
  EXPECT_EQ(spec->sampling.top_k(), 0);
  EXPECT_EQ(spec->sampling.top_p(), 0.95F);
  EXPECT_EQ(spec->sampling.min_p(), 0);
  EXPECT_EQ(spec->sampling.repetition_penalty(), 1);
  EXPECT_EQ(spec->sampling.seed(), 7u);
  EXPECT_THAT(spec->sampling.stop(), ElementsAre("b"));
}

}  // namespace
}  // namespace baton
