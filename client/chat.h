// The chat of `baton run`: lines of a terminal, and the whole talk with every request.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"

namespace baton {

// A line that begins with / is a command (/help lists them). A line that begins with """ begins a
// message of several lines, which ends with the line that ends with """. Every other line is a
// message. Single-threaded.
class Chat {
 public:
  // Shows the answer to the talk and returns its text, or nothing where it failed.
  using Ask = std::function<std::optional<std::string>(const v1::GenerateRequest& talk)>;

  // `request` has what every request has but its messages; /set changes how answers are drawn.
  // `system`: the system message, empty where there is none.
  Chat(v1::GenerateRequest request, std::string system, Ask ask);

  // Reads until /bye or the end of `in`. Prompts and errors go to stderr.
  void Run(std::istream& in);

 private:
  void Command(const std::string& line);
  absl::Status SetSystem(const std::string& text);
  absl::Status SetValue(const std::string& text);
  void Send(const std::string& text);

  v1::GenerateRequest request_;  // without messages
  std::string system_;
  std::vector<std::string> talk_;  // in turn what was said and what was answered
  FlagSet settings_;               // sets the sampling_params of request_
  const Ask ask_;
};

void AddMessage(v1::GenerateRequest& request, const std::string& role, const std::string& content);

}  // namespace baton
