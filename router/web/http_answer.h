// Writes the answer to one HTTP request whose prompts the router runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

#include "router/api/answer_format.h"
#include "router/calls/client_call.h"
#include "router/front/preparing_pool.h"
#include "router/http/exchange.h"
#include "router/web/routes.h"

namespace baton {

// Merges the responses of the prompts' calls into one answer, which ends when all calls have ended:
// a stream as they come, or else one body. The first error, or a client that leaves, ends the
// answer and all other calls at once. Thread-safe. Works on the exchange's thread, except for two
// texts that may be large: a whole body, and the end of a long stream, which may repeat all of it.
// These are made by `pool` if it has room. The writers and the exchange keep the answer alive.
// Borrows `pool`, which outlives its calls.
class HttpAnswer final : public std::enable_shared_from_this<HttpAnswer> {
 public:
  HttpAnswer(std::shared_ptr<HttpExchange> exchange, ApiRequest request, Api api,
             std::string request_id, std::string tenant, PreparingPool& pool);

  const std::vector<v1::GenerateRequest>& prompts() const { return request_.prompts; }

  // Makes the writer for a prompt's call. REQUIRES: called once for each prompt, before Started.
  std::unique_ptr<ClientWriter> NewWriter(size_t prompt);
  // The prompt was accepted and has `prompt_tokens` tokens: it can no longer be refused as invalid.
  // A stream begins when all prompts are settled.
  void Settled(size_t prompt, uint32_t prompt_tokens);
  // All calls were started and may be cancelled from now on.
  void Started();

 private:
  class Writer;
  // Bytes of the answer that a call waits to have written.
  struct Event {
    ClientCall* call = nullptr;
    std::string bytes{};
    absl::Cord rest{};  // written after `bytes`
  };

  // The following run on the exchange's thread.
  void Write(size_t prompt, const v1::GenerateResponse& response);
  // Has the pool make the events of the only prompt's last response if they may be long. Returns
  // false if they are short, or if the pool has no room.
  bool WriteOnPool(ClientCall* call, const v1::GenerateResponse& response);
  // Makes the events of a response.
  Event EventOf(size_t prompt, ClientCall* call, const v1::GenerateResponse& response);
  // Sends the event of a response, or keeps it until the stream begins.
  void Made(Event event);
  void BeginStream();
  void Send(Event event);
  // `written` is that of HttpExchange.
  void SendBytes(std::string bytes, absl::Cord rest, std::function<void(bool ok)> written);
  void Ended(size_t prompt, const absl::Status& status);
  void EndWith(const absl::Status& status);
  void FinishStream();
  void RespondWhole();
  // Headers of an answer that is no refusal, besides the headers of its body.
  std::vector<HttpHeader> Headers() const;
  // Returns false, and never runs `work`, if the pool takes no more.
  bool RunOnPool(std::function<void()> work);
  // The client no longer reads the answer.
  void Break();
  // Ends the answer: nothing more is sent.
  void End(bool client_left);
  void CancelCalls(bool client_left);

  const std::shared_ptr<HttpExchange> exchange_;
  const ApiRequest request_;
  const Api api_;
  const std::string request_id_;
  const std::string tenant_;
  PreparingPool& pool_;

  // The exchange's thread only:
  std::vector<ClientCall*> calls_;  // by prompt; null: the call has ended
  // Events that came before all prompts were settled, at most one for each prompt.
  std::vector<Event> early_;
  size_t unsettled_ = 0;          // prompts for which Settled was not called yet
  uint64_t prompt_logprobs_ = 0;  // number of prompt log probabilities of the settled prompts
  size_t running_ = 0;
  bool started_ = false;
  bool begun_ = false;     // a stream's headers are sent
  size_t sent_bytes_ = 0;  // bytes of the stream's events so far
  bool over_ = false;      // nothing more is sent, so calls that still run are useless
};

}  // namespace baton
