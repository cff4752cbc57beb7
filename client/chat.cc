#include "client/chat.h"

#include <utility>

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

bool ReadLine(const char* prompt, std::istream& in, std::string& line) {
  WriteNotice(prompt);
  return static_cast<bool>(std::getline(in, line));
}

// The message that begins with `line`: that line, or a block of lines read from `in`. nullopt if
// `in` ends within a block.
std::optional<std::string> ReadMessage(const std::string& line, std::istream& in) {
  if (!absl::StartsWith(line, kQuotes)) return line;
  std::string text = line.substr(3);
  while (!absl::EndsWith(text, kQuotes)) {
    std::string next;
    if (!ReadLine("... ", in, next)) return std::nullopt;
    absl::StrAppend(&text, "\n", next);
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

void Chat::Run(std::istream& in) {
  Say("A chat. /help lists the commands, /bye or Ctrl-D ends, Ctrl-C stops an answer.");
  std::string line;
  while (ReadLine(">>> ", in, line)) {
    if (line == "/bye") return;
    if (absl::StartsWith(line, "/")) {
      Command(line);
      continue;
    }
    const std::optional<std::string> message = ReadMessage(line, in);
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
  } else if (command == "/help") {
    Say(
        absl::StrCat("/clear           forgets the talk\n"
                     "/system TEXT     is the system message from now on; without TEXT there is "
                     "none\n"
                     "/set NAME VALUE  as the flag --NAME of `baton run`: ",
                     absl::StrJoin(settings_.Names(), ", "),
                     "\n/set             shows what is set\n"
                     "/bye             ends, as Ctrl-D does\n"
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
    Say(request_.sampling_params().ShortDebugString());
    return absl::OkStatus();
  }
  const std::pair<std::string, std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  return settings_.Set(words.first, words.second);
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
    talk_.pop_back();  // a message without a complete answer does not stay in the talk
  }
}

void AddMessage(v1::GenerateRequest& request, const std::string& role, const std::string& content) {
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(role);
  message.set_content(content);
}

}  // namespace baton
