// The answer to one HTTP request whose prompts the router runs.
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

// Turns what the prompts' calls write into one answer, and ends it when all have ended: in a stream
// as it comes, else as one body. The first error ends it at once, and the other calls with it, and
// so does a client that leaves. Thread-safe; it works on the exchange's own thread, but for a whole
// body and for the end of a long stream, which may repeat all of it: these may be large, and are
// made by `pool`, where that has room. Its writers and its exchange keep it alive. Borrows `pool`,
// which outlives its calls.
class HttpAnswer final : public std::enable_shared_from_this<HttpAnswer> {
 public:
  HttpAnswer(std::shared_ptr<HttpExchange> exchange, ApiRequest request, Api api,
             std::string request_id, std::string tenant, PreparingPool& pool);

  const std::vector<v1::GenerateRequest>& prompts() const { return request_.prompts; }

  // For the call of a prompt. REQUIRES: once for each, before Started.
  std::unique_ptr<ClientWriter> NewWriter(size_t prompt);
  // Nothing of that prompt can be refused any more for what it asks; it has so many tokens. When
  // this was said of all, a stream begins.
  void Settled(size_t prompt, uint32_t prompt_tokens);
  // All prompts' calls are on their way: they may be cancelled from now on.
  void Started();

 private:
  class Writer;
  // What a call waits to have written.
  struct Event {
    ClientCall* call = nullptr;
    std::string bytes{};
    absl::Cord rest{};  // what follows them
  };

  // All of these on the exchange's thread.
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
  // `written` as HttpExchange's.
  void SendBytes(std::string bytes, absl::Cord rest, std::function<void(bool ok)> written);
  void Ended(size_t prompt, const absl::Status& status);
  void EndWith(const absl::Status& status);
  void FinishStream();
  void RespondWhole();
  // Headers of an answer that is no refusal, beside those of its body.
  std::vector<HttpHeader> Headers() const;
  // Returns false, and never runs `work`, if the pool takes no more.
  bool RunOnPool(std::function<void()> work);
  // The client takes nothing of what a call has written.
  void Break();
  // Nothing is sent any more.
  void End(bool client_left);
  void CancelCalls(bool client_left);

  const std::shared_ptr<HttpExchange> exchange_;
  const ApiRequest request_;
  const Api api_;
  const std::string request_id_;
  const std::string tenant_;
  PreparingPool& pool_;

  // Of the exchange's thread.
  std::vector<ClientCall*> calls_;  // by prompt; null: has ended
  // Of prompts that are let in before the last, until the stream begins: at most one of each.
  std::vector<Event> early_;
  size_t unsettled_ = 0;
  uint64_t prompt_logprobs_ = 0;  // that the answer will tell, of the prompts that are settled
  size_t running_ = 0;
  bool started_ = false;
  bool begun_ = false;     // a stream's headers are sent
  size_t sent_bytes_ = 0;  // bytes of the stream's events so far
  bool over_ = false;      // nothing is sent any more, and calls that still run are of no use
};

}  // namespace baton
