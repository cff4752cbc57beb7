// Reads a stream of OpenAI's events: which of them brought tokens, and how many.
//
// A message is an event whose choice has token_ids, or by which a running usage grew, or else whose
// text, reasoning or call of a tool is not empty. An event with a role only is none. Events that
// come in one piece of the network are messages at one time, with no time between them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

#include "bench/serve/target/load_record.h"

namespace baton {

class OpenAiStream {
 public:
  // Fills messages, input_tokens, stages, attempts and local_prefill. Borrows `record`.
  explicit OpenAiStream(LoadRecord& record) : record_(record) {}

  // Takes the next bytes of the body, which came at `now_ns`.
  void Take(absl::string_view bytes, int64_t now_ns);
  // The body has ended: settles how many tokens the messages had, as TokensTold says. Returns what
  // is wrong with the answer; empty: it is whole.
  std::string End();
  // Whether the answer was refused before its first token, for now: a server may find out that it
  // has too much to do after the stream's status, 200, is sent. Valid behind End().
  bool refused() const { return refused_; }

 private:
  void TakeLine(absl::string_view line, int64_t now_ns);
  void TakeEvent(const nlohmann::json& event, int64_t now_ns);
  // The tokens that the choice brought, `usage` being the event's.
  uint32_t TokensOf(const nlohmann::json& choice, const nlohmann::json* usage);
  void TakeTimings(const nlohmann::json& timings);
  void Settle();

  LoadRecord& record_;
  std::string partial_;  // a line that has not ended
  std::string error_;
  bool done_ = false;
  bool refused_ = false;
  bool by_ids_ = false, by_usage_ = false, by_messages_ = false;
  uint64_t counted_ = 0;  // tokens of messages so far
  uint64_t told_ = 0;     // tokens of the answer, as the last usage says; 0: none did
};

}  // namespace baton
