#include "client/chat.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "client/sampling_flags.h"
#include "client/utf8_check.h"
#include "common/base/log.h"
#include "common/base/standard_error.h"

namespace baton {
namespace {

constexpr char kQuotes[] = "\"\"\"";

void Say(const std::string& text) { WriteNotice(absl::StrCat(text, "\n")); }

// Whether `line` is meant as a command: "/?", or "/" and a word that begins with a letter. "//", "/ "
// and paths such as "/usr/bin" begin messages.
bool IsCommand(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "/")) return false;
  const absl::string_view word = line.substr(0, line.find(' '));
  if (word.empty()) return false;
  return word == "?" || (absl::ascii_isalpha(word[0]) && !absl::StrContains(word, '/'));
}

bool EndsChat(absl::string_view line) {
  const absl::string_view word = absl::StripAsciiWhitespace(line);
  return word == "/bye" || word == "/exit" || word == "/quit";
}

// The message that begins with `line`: that line, or a block of lines read from `lines`. nullopt if
// they end within a block.
std::optional<std::string> ReadMessage(const std::string& line, LineReader& lines) {
  if (!absl::StartsWith(line, kQuotes)) return line;
  std::string text = line.substr(3);
  while (!absl::EndsWith(text, kQuotes)) {
    const std::optional<std::string> next = lines.Read("... ");
    if (!next.has_value()) return std::nullopt;
    absl::StrAppend(&text, "\n", *next);
  }
  absl::string_view message = absl::StripSuffix(text, kQuotes);
  absl::ConsumePrefix(&message, "\n");  // a line with only quotes adds no empty line
  absl::ConsumeSuffix(&message, "\n");
  return std::string(message);
}

}  // namespace

Chat::Chat(v1::GenerateRequest request, std::string system, Ask ask)
    : request_(std::move(request)),
      system_(std::move(system)),
      settings_("chat", ""),
      ask_(std::move(ask)) {
  AddSamplingFlags(settings_, *request_.mutable_sampling_params());
}

void Chat::Run(LineReader& lines) {
  Say("A chat. /help lists the commands, /bye or Ctrl-D ends, Ctrl-C stops an answer.");
  while (const std::optional<std::string> line = lines.Read(">>> ")) {
    if (EndsChat(*line)) return;
    if (IsCommand(*line)) {
      Command(*line);
      continue;
    }
    const std::optional<std::string> message = ReadMessage(*line, lines);
    if (!message.has_value()) {
      Say("\nthe message has no \"\"\" at its end and is not sent");
      return;
    }
    if (!message->empty()) Send(*message);
  }
  Say("");
}

void Chat::Command(const std::string& line) {
  const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const auto& [command, text] = words;
  absl::Status status;
  if (command == "/clear") {
    talk_.clear();
  } else if (command == "/system") {
    status = SetSystem(text);
  } else if (command == "/set") {
    status = SetValue(text);
  } else if (command == "/help" || command == "/?") {
    Say(
        absl::StrCat("/clear           starts a new conversation\n"
                     "/system TEXT     sets the system message; without TEXT there is none\n"
                     "/set NAME VALUE  as the flag --NAME of `baton run`: ",
                     absl::StrJoin(settings_.Names(), ", "),
                     "\n/set             shows what is set\n"
                     "/bye             ends the chat, as /exit and Ctrl-D do\n"
                     "/?               shows this, as /help does\n"
                     "\"\"\"              begins and ends a message of several lines"));
  } else {
    Say(absl::StrCat("unknown command ", LogSafe(command), "; /help lists those there are"));
  }
  if (!status.ok()) Say(std::string(status.message()));
}

absl::Status Chat::SetSystem(const std::string& text) {
  if (const absl::Status status = CheckUtf8(text); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("/system: TEXT ", status.message()));
  }
  system_ = text;
  return absl::OkStatus();
}

absl::Status Chat::SetValue(const std::string& text) {
  if (text.empty()) {
    const std::string set = SamplingText(request_.sampling_params());
    Say(set.empty() ? "nothing is set; the server's defaults hold" : set);
    return absl::OkStatus();
  }
  const std::pair<std::string, std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  const absl::Status status = settings_.Set(words.first, words.second);
  const std::vector<std::string> names = settings_.Names();
  if (status.ok() || absl::c_linear_search(names, words.first)) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(status.message(), "; valid names are ", absl::StrJoin(names, ", ")));
}

void Chat::Send(const std::string& text) {
  if (const absl::Status status = CheckUtf8(text); !status.ok()) {
    Say(absl::StrCat("the message ", status.message()));
    return;
  }
  v1::GenerateRequest request = request_;
  if (!system_.empty()) AddMessage(request, "system", system_);
  talk_.push_back(text);
  for (size_t i = 0; i < talk_.size(); ++i) {
    AddMessage(request, i % 2 == 0 ? "user" : "assistant", talk_[i]);
  }
  std::optional<std::string> answer = ask_(request);
  if (answer.has_value()) {
    talk_.push_back(*std::move(answer));
  } else {
    talk_.pop_back();  // many templates refuse two messages of the user in a row
  }
}

void AddMessage(v1::GenerateRequest& request, const std::string& role, const std::string& content) {
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(role);
  message.set_content(content);
}

}  // namespace baton
