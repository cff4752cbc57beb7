// The chat of `baton run`: reads messages from a terminal and sends the whole talk with each one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "client/terminal/line_reader.h"
#include "common/flags/flags.h"

namespace baton {

// A line that begins with / and a letter is a command, as /? is (/help lists them). A line that
// begins with """ begins a message that ends with the first """ at the end of a line, the same or a
// later one. Every other line is a message. Single-threaded.
class Chat {
 public:
  // Sends the talk, shows the answer and returns its text, of one that was interrupted what came;
  // nullopt if nothing came or the request failed.
  using Ask = std::function<std::optional<std::string>(const v1::GenerateRequest& talk)>;

  // `request` is a request without messages, of which each message sends a copy; /set changes its
  // sampling parameters. `system` is the system message; empty: none.
  Chat(v1::GenerateRequest request, std::string system, Ask ask);

  // Reads until /bye or the end of `lines`. Prompts and errors go to stderr.
  void Run(LineReader& lines);

 private:
  void Command(const std::string& line);
  absl::Status SetSystem(const std::string& text);
  absl::Status SetValue(const std::string& text);
  void Send(const std::string& text);

  v1::GenerateRequest request_;  // without messages
  std::string system_;
  std::vector<std::string> talk_;  // messages, in turn the user's and the assistant's
  FlagSet settings_;               // sets the sampling_params of request_
  const Ask ask_;
};

void AddMessage(v1::GenerateRequest& request, const std::string& role, const std::string& content);

}  // namespace baton
