#include "router/front/served_model.h"

#include <atomic>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a chat with a model of that template ends with.
absl::Status Prepared(const std::string& chat_template, bool stopping) {
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
  const auto model = ServedModel::Load(*file, "");
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

}  // namespace
}  // namespace baton
