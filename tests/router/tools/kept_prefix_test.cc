// A client that only appends to its chat keeps the tokens of its prompt's beginning, which workers
// hold, as far as the chat template allows it.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/gguf/gguf_file.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/router/tools/public_templates.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

// The texts of a template's source that look like special tokens: <...> and [UPPER_CASE].
void CollectMarkers(absl::string_view source, std::set<std::string>& markers) {
  constexpr size_t kMost = 48;
  for (size_t begin = 0; begin < source.size(); ++begin) {
    const char open = source[begin];
    if (open != '<' && open != '[') continue;
    const auto belongs = [&](unsigned char byte) {
      const bool of_name = byte == '_' || byte == '/' || byte >= 0x80;
      if (open == '[') return of_name || std::isupper(byte) != 0;
      return of_name || byte == '|' || byte == '-' || byte == ':' || std::isalnum(byte) != 0;
    };
    size_t end = begin + 1;
    while (end < source.size() && end - begin < kMost && belongs(source[end])) ++end;
    const bool closes = end < source.size() && source[end] == (open == '<' ? '>' : ']');
    if (closes && end > begin + 2) markers.emplace(source.substr(begin, end + 1 - begin));
  }
}

// SmolLM2's tokenizer, with the special tokens of all public templates.
const Tokenizer& SharedTokenizer() {
  static const Tokenizer& tokenizer = *[] {
    const auto file = GgufFile::Open(absl::StrCat(BATON_TEST_DATA, "/tokenizer/smollm2-vocab.gguf"),
                                     GgufFile::Part::kTokenizer);
    const auto texts_at = [&](absl::string_view key) {
      std::vector<std::string> texts;
      const auto found = file->GetStrings(key);
      for (const absl::string_view text : *found) texts.emplace_back(text);
      return texts;
    };
    std::vector<std::string> tokens = texts_at("tokenizer.ggml.tokens");
    const auto kinds = *file->GetInts("tokenizer.ggml.token_type");
    std::vector<int32_t> types(kinds.begin(), kinds.end());
    std::set<std::string> markers = {"<s>", "</s>"};
    for (const PublicTemplate& each : PublicTemplates()) CollectMarkers(each.source, markers);
    for (const std::string& token : tokens) markers.erase(token);
    for (const std::string& marker : markers) {
      tokens.push_back(marker);
      types.push_back(3);  // a control token
    }
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", "gpt2")
        .Text("tokenizer.ggml.pre", std::string(*file->GetString("tokenizer.ggml.pre")))
        .Texts("tokenizer.ggml.tokens", tokens)
        .Int32s("tokenizer.ggml.token_type", types)
        .Texts("tokenizer.ggml.merges", texts_at("tokenizer.ggml.merges"));
    const auto built = GgufFile::Parse(builder.Build(), "shared.gguf", GgufFile::Part::kTokenizer);
    EXPECT_TRUE(built.ok()) << built.status();
    auto loaded = Tokenizer::Load(*built);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded->release();
  }();
  return tokenizer;
}

// The first messages of a line of tests/data/agents/conversations.jsonl.
v1::ChatInput ChatOf(const Json& conversation, size_t messages) {
  v1::ChatInput chat;
  for (size_t i = 0; i < messages; ++i) {
    const Json& from = conversation["messages"][i];
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(from["role"]);
    message.set_content(from["content"]);
    message.set_tool_call_id(from.value("tool_call_id", ""));
    for (const Json& of_call : from.value("tool_calls", Json::array())) {
      v1::ToolCall& call = *message.add_tool_calls();
      call.set_id(of_call["id"]);
      call.set_name(of_call["name"]);
      call.set_arguments(of_call["arguments"]);
    }
  }
  for (const Json& from : conversation.value("tools", Json::array())) {
    v1::Tool& tool = *chat.add_tools();
    tool.set_name(from["name"]);
    tool.set_description(from["description"]);
    tool.set_parameters(from["parameters"].dump());
  }
  return chat;
}

// How many messages each request of the conversation has: an answer follows them, or nothing.
std::vector<size_t> RequestsOf(const Json& conversation) {
  const Json& messages = conversation["messages"];
  std::vector<size_t> counts;
  for (size_t i = 1; i < messages.size(); ++i) {
    if (messages[i]["role"] == "assistant") counts.push_back(i);
  }
  counts.push_back(messages.size());
  return counts;
}

// Nothing if the template fails.
std::optional<std::vector<TextPiece>> Rendered(const PublicTemplate& of, const v1::ChatInput& chat,
                                               bool with_answer) {
  ChatTemplateOptions options = of.options;
  options.add_generation_prompt = with_answer;
  auto pieces = of.compiled.Render(ChatJsonOf(chat, of.shape), options);
  if (!pieces.ok()) return std::nullopt;
  return *std::move(pieces);
}

std::string Joined(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return text;
}

template <typename List>
size_t CommonSize(const List& a, const List& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

// Why a request's prompt does not begin with the tokens of the one before, up to the beginning of
// the answer, which some templates write unlike the answers of before; empty if each does.
std::string Fault(const PublicTemplate& of, const Json& conversation) {
  Ids before;
  size_t messages_bytes = 0;  // bytes of the previous prompt without the answer's beginning
  for (const size_t count : RequestsOf(conversation)) {
    const v1::ChatInput chat = ChatOf(conversation, count);
    const auto prompt = Rendered(of, chat, true);
    const auto messages = Rendered(of, chat, false);
    if (!prompt.has_value() || !messages.has_value()) {
      return absl::StrCat("fails with ", count, " messages");
    }
    const auto ids = SharedTokenizer().Encode(*prompt, /*add_special_tokens=*/false);
    EXPECT_TRUE(ids.ok()) << ids.status();
    if (!ids.ok()) return "";
    const size_t same = CommonSize(before, *ids);
    size_t same_bytes = 0;
    for (size_t i = 0; i < same; ++i) same_bytes += SharedTokenizer().TokenBytes(before[i]).size();
    if (same_bytes < messages_bytes) {
      const auto rest_of = [&](const Ids& all) {
        const Ids rest(all.begin() + static_cast<ptrdiff_t>(same), all.end());
        return SharedTokenizer().Decode(rest, false).substr(0, 80);
      };
      return absl::StrCat("with ", count, " messages: ", rest_of(before), " became ",
                          rest_of(*ids));
    }
    before = *ids;
    messages_bytes = CommonSize(Joined(*messages), Joined(*prompt));
  }
  return "";
}

const std::vector<Json>& Conversations() {
  static const auto& conversations = *new std::vector<Json>(LinesOf("agents/conversations.jsonl"));
  return conversations;
}

// Templates that drop or move what they wrote before, and those that fail for some of the chats.
// docs/agents.md says what each does.
const std::set<std::string> kExceptionsThatPlaceMessages = {
    "CohereForAI-c4ai-command-r-plus-tool_use", "Mistral-Small-3.2-24B-Instruct-2506", "Qwen3.5-4B",
    "mistralai-Mistral-Nemo-Instruct-2407"};
const std::set<std::string> kExceptionsThatKeepMessages = {
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "StepFun3.5-Flash",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct"};

TEST(KeptPrefix, ALongerConversationBeginsWithTheShorterOnesTokens) {
  ASSERT_GE(Conversations().size(), 9u);
  std::map<std::string, std::string> faults;
  for (const PublicTemplate& each : PublicTemplates()) {
    for (const Json& conversation : Conversations()) {
      const std::string fault = Fault(each, conversation);
      if (fault.empty()) continue;
      absl::StrAppend(&faults[each.name], conversation["name"].get<std::string>(), ": ", fault,
                      "\n");
    }
  }
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/../../docs/agents.md"));
  const std::string document(std::istreambuf_iterator<char>(file), {});
  std::set<std::string> left = kExceptionsThatPlaceMessages;
  left.insert(kExceptionsThatKeepMessages.begin(), kExceptionsThatKeepMessages.end());
  for (const auto& [name, why] : faults) {
    EXPECT_EQ(left.erase(name), 1u) << name << "\n" << why;
    EXPECT_THAT(document, ::testing::HasSubstr(absl::StrCat("`", name, "`")));
    const bool keeps = PublicTemplateOf(name).shape.later_system == LaterSystem::kKept;
    EXPECT_EQ(kExceptionsThatKeepMessages.contains(name), keeps) << name;
  }
  EXPECT_THAT(left, ::testing::IsEmpty());
}

TEST(KeptPrefix, EachLineOfASystemMessageIsInThePrompt) {
  for (const PublicTemplate& each : PublicTemplates()) {
    for (const Json& conversation : Conversations()) {
      const auto pieces =
          Rendered(each, ChatOf(conversation, conversation["messages"].size()), true);
      if (!pieces.has_value()) continue;
      const std::string prompt = Joined(*pieces);
      for (const Json& message : conversation["messages"]) {
        if (message["role"] != "system" && message["role"] != "developer") continue;
        for (const absl::string_view line :
             absl::StrSplit(message["content"].get_ref<const std::string&>(), '\n')) {
          EXPECT_TRUE(absl::StrContains(prompt, line))
              << each.name << ": " << conversation["name"] << ": " << line;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton
