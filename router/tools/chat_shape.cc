#include "router/tools/chat_shape.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "router/tools/chat_json.h"

namespace baton {
namespace {

constexpr char kArguments[] = R"({"probe": "pebble"})";
constexpr char kCallId[] = "call00001";  // has the nine characters that Mistral's templates require

// A chat to render, a letter for each message: s and S system, u user, a assistant, c an
// assistant's call, t its result. S is the message in question.
using Roles = absl::string_view;

// The text of the message at `index`, which is no part of another one's.
std::string WordOf(size_t index) { return absl::StrCat("needle", index, "x"); }

const char* RoleOf(char letter) {
  switch (letter) {
    case 's':
    case 'S':
      return "system";
    case 'u':
      return "user";
    case 't':
      return "tool";
    default:
      return "assistant";
  }
}

v1::ChatInput ChatOf(Roles roles, bool with_question) {
  v1::ChatInput chat;
  for (size_t i = 0; i < roles.size(); ++i) {
    const char role = roles[i];
    if (role == 'S' && !with_question) continue;
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(RoleOf(role));
    if (role == 't') message.set_tool_call_id(kCallId);
    if (role != 'c') {
      message.set_content(WordOf(i));
      continue;
    }
    v1::ToolCall& call = *message.add_tool_calls();
    call.set_id(kCallId);
    call.set_name("f");
    call.set_arguments(kArguments);
  }
  if (absl::StrContains(roles, 'c')) chat.add_tools()->set_name("f");
  return chat;
}

// Renders probes of one model.
class Prober {
 public:
  Prober(const ChatTemplate& chat_template, const ChatTemplateOptions& options)
      : chat_template_(chat_template), options_(options) {}

  // The prompt; nothing if the template fails.
  std::optional<std::string> Prompt(Roles roles, const ChatShape& shape, bool with_question = true,
                                    bool with_answer = true) const {
    ChatTemplateOptions options = options_;
    options.add_generation_prompt = with_answer;
    const auto pieces =
        chat_template_.Render(ChatJsonOf(ChatOf(roles, with_question), shape), options);
    if (!pieces.ok()) return std::nullopt;
    std::string text;
    for (const TextPiece& piece : *pieces) text += piece.text;
    return text;
  }

  // What becomes of S. A chat that fails without S shows nothing: kKept.
  LaterSystem Question(Roles roles, const ChatShape& shape) const {
    if (!Prompt(roles, shape, /*with_question=*/false).has_value()) return LaterSystem::kKept;
    const std::optional<std::string> prompt = Prompt(roles, shape);
    if (!prompt.has_value()) return LaterSystem::kRaises;
    const size_t index = roles.find('S');
    const size_t place = prompt->find(WordOf(index));
    if (place == std::string::npos) return LaterSystem::kLost;
    for (size_t i = 0; i < roles.size(); ++i) {
      const size_t other = prompt->find(WordOf(i));
      const bool in_order = i < index ? other < place : other >= place;
      if (other != std::string::npos && !in_order) return LaterSystem::kMoved;
    }
    return LaterSystem::kKept;
  }

  // Whether the longer chat's prompt begins with that of the shorter one's messages.
  bool Extends(Roles shorter, Roles longer, const ChatShape& shape) const {
    const auto beginning = Prompt(shorter, shape, true, /*with_answer=*/false);
    const auto whole = Prompt(longer, shape);
    return beginning.has_value() && whole.has_value() && absl::StartsWith(*whole, *beginning);
  }

 private:
  const ChatTemplate& chat_template_;
  const ChatTemplateOptions& options_;
};

// How well a template renders a call's arguments: not at all, not as JSON, as JSON.
int ArgumentsScore(const std::optional<std::string>& prompt) {
  if (!prompt.has_value() || !absl::StrContains(*prompt, "pebble")) return 0;
  return absl::StrContains(*prompt, "'probe'") || absl::StrContains(*prompt, "\\\"probe\\\"") ? 1
                                                                                              : 2;
}

LaterSystem WorstOf(const Prober& prober, const ChatShape& shape,
                    std::initializer_list<Roles> chats) {
  LaterSystem worst = LaterSystem::kKept;
  for (const Roles roles : chats) worst = std::max(worst, prober.Question(roles, shape));
  return worst;
}

// Whether a system message behind others takes away what the template writes at the head of a chat
// that has none.
bool TurnsDefaultOff(const Prober& prober, const ChatShape& shape) {
  return !prober.Extends("ua", "uaSu", shape) && prober.Extends("ua", "uau", shape);
}

// Some templates, with a system message, miscount where results of tools end.
bool HasSystemWithTools(const Prober& prober, const ChatShape& shape) {
  return WorstOf(prober, shape, {"Suct", "Suctau"}) == LaterSystem::kKept &&
         (prober.Extends("suct", "suctau", shape) || !prober.Extends("uct", "uctau", shape));
}

void LearnArguments(const Prober& prober, const ChatShape& unknown, ChatShape& shape) {
  ChatShape with_text = unknown;
  with_text.text_arguments = true;
  const int score = ArgumentsScore(prober.Prompt("uc", with_text));
  shape.text_arguments = score > ArgumentsScore(prober.Prompt("uc", unknown));
  shape.takes_text = score > 0;
}

}  // namespace

ChatShape ShapeOf(const ChatTemplate& chat_template, ToolFormKind kind,
                  const ChatTemplateOptions& options) {
  const Prober prober(chat_template, options);
  const ChatShape unknown{.kind = kind};
  ChatShape shape = unknown;
  const bool knows_tools = kind != ToolFormKind::kGeneric;  // others see no calls and results
  const bool needs_tools = !prober.Prompt("u", unknown).has_value();
  if (needs_tools && !(knows_tools && prober.Prompt("uct", unknown).has_value())) {
    shape.later_system = LaterSystem::kRaises;
    return shape;
  }
  shape.has_system = WorstOf(prober, unknown, {"Su", "Suau"}) == LaterSystem::kKept;
  shape.has_system_with_tools = shape.has_system;
  shape.later_system = WorstOf(prober, unknown, {"uS", "uSau", "uaSu", "suSau", "suaSu"});
  if (TurnsDefaultOff(prober, unknown)) {
    shape.later_system = std::max(shape.later_system, LaterSystem::kMoved);
  }
  shape.takes_turns = !needs_tools && !prober.Prompt("uu", unknown).has_value();
  if (!knows_tools) return shape;
  LearnArguments(prober, unknown, shape);
  shape.has_system_with_tools = shape.has_system && HasSystemWithTools(prober, unknown);
  shape.later_system = std::max(shape.later_system,
                                WorstOf(prober, unknown, {"uctS", "uctSau", "suctSa", "uctaSu"}));
  return shape;
}

const char* NameOf(LaterSystem later_system) {
  switch (later_system) {
    case LaterSystem::kMoved:
      return "moved";
    case LaterSystem::kLost:
      return "lost";
    case LaterSystem::kRaises:
      return "raises";
    case LaterSystem::kKept:
      break;
  }
  return "kept";
}

}  // namespace baton
