#include "router/web/http_answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "router/web/refusal.h"

namespace baton {
namespace {

// The pool makes the end of a stream that is at least this long, and the end of a call whose last
// response is.
constexpr size_t kLongStreamBytes = size_t{256} << 10;

}  // namespace

// A call's writer. The exchange's thread does all that takes time, so the router's loop does not.
class HttpAnswer::Writer final : public ClientWriter {
 public:
  Writer(std::shared_ptr<HttpAnswer> answer, size_t prompt)
      : answer_(std::move(answer)), prompt_(prompt) {}

  void Attach(ClientCall& call) override {
    answer_->exchange_->Post(
        [answer = answer_, prompt = prompt_, &call] { answer->calls_[prompt] = &call; });
  }
  void StartWrite(const v1::GenerateResponse* response) override {
    answer_->exchange_->Post(
        [answer = answer_, prompt = prompt_, response] { answer->Write(prompt, *response); });
  }
  void Finish(const absl::Status& status) override {
    answer_->exchange_->Post(
        [answer = answer_, prompt = prompt_, status] { answer->Ended(prompt, status); });
  }
  void Cancel() override {
    answer_->exchange_->Post([answer = answer_] { answer->Break(); });
  }

 private:
  const std::shared_ptr<HttpAnswer> answer_;
  const size_t prompt_;
};

HttpAnswer::HttpAnswer(std::shared_ptr<HttpExchange> exchange, ApiRequest request, Api api,
                       std::string request_id, std::string tenant, PreparingPool& pool)
    : exchange_(std::move(exchange)),
      request_(std::move(request)),
      api_(api),
      request_id_(std::move(request_id)),
      tenant_(std::move(tenant)),
      pool_(pool),
      calls_(request_.prompts.size()),
      unsettled_(request_.prompts.size()),
      running_(request_.prompts.size()) {}

std::unique_ptr<ClientWriter> HttpAnswer::NewWriter(size_t prompt) {
  return std::make_unique<Writer>(shared_from_this(), prompt);
}

void HttpAnswer::Settled(size_t prompt, uint32_t prompt_tokens) {
  exchange_->Post([self = shared_from_this(), prompt, prompt_tokens] {
    self->request_.format->Begin(prompt, prompt_tokens);
    self->prompt_logprobs_ += prompt_tokens * self->request_.logprobs_of_prompt_token;
    if (self->prompt_logprobs_ > kMaxAnswerPromptLogprobs) {
      return self->EndWith(InvalidField(
          "logprobs",
          absl::StrCat("of all prompts' tokens, in each choice, are more than ",
                       kMaxAnswerPromptLogprobs, "; ask for fewer, or send fewer prompts")));
    }
    if (--self->unsettled_ == 0 && self->request_.stream && !self->over_) self->BeginStream();
  });
}

void HttpAnswer::Started() {
  exchange_->Post([self = shared_from_this()] {
    self->started_ = true;
    if (self->over_) return self->CancelCalls(/*client_left=*/false);
    // The exchange outlives what it calls, and must not keep itself alive.
    self->exchange_->OnGone([weak = self->weak_from_this()] {
      const std::shared_ptr<HttpAnswer> answer = weak.lock();
      if (answer == nullptr) return;
      answer->exchange_->Post([answer] { answer->End(/*client_left=*/true); });
    });
  });
}

void HttpAnswer::Write(size_t prompt, const v1::GenerateResponse& response) {
  ClientCall* const call = calls_[prompt];
  if (!over_ && response.has_complete() && WriteOnPool(call, response)) return;
  Made(over_ ? Event{.call = call} : EventOf(prompt, call, response));
}

HttpAnswer::Event HttpAnswer::EventOf(size_t prompt, ClientCall* call,
                                      const v1::GenerateResponse& response) {
  Event event{.call = call};
  request_.format->Add(prompt, response, event.bytes);
  event.rest = request_.format->TakeRest();
  return event;
}

bool HttpAnswer::WriteOnPool(ClientCall* call, const v1::GenerateResponse& response) {
  // Nothing else uses the format meanwhile: the only call writes one response at a time.
  if (calls_.size() > 1) return false;
  if (std::max(sent_bytes_, response.ByteSizeLong()) < kLongStreamBytes) return false;
  return RunOnPool([self = shared_from_this(), call, &response] {
    self->exchange_->Post([self, event = self->EventOf(0, call, response)]() mutable {
      self->Made(std::move(event));
    });
  });
}

void HttpAnswer::Made(Event event) {
  const bool empty = event.bytes.empty() && event.rest.empty();
  if (over_ || empty || !request_.stream) return event.call->OnWriteDone(!over_);
  if (begun_) return Send(std::move(event));
  early_.push_back(std::move(event));
}

void HttpAnswer::BeginStream() {
  begun_ = true;
  exchange_->BeginEvents(Headers());
  for (Event& event : std::exchange(early_, {})) Send(std::move(event));
}

void HttpAnswer::Send(Event event) {
  SendBytes(std::move(event.bytes), std::move(event.rest),
            [call = event.call](bool ok) { call->OnWriteDone(ok); });
}

void HttpAnswer::SendBytes(std::string bytes, absl::Cord rest,
                           std::function<void(bool ok)> written) {
  sent_bytes_ += bytes.size() + rest.size();
  if (rest.empty()) return exchange_->Send(std::move(bytes), std::move(written));
  rest.Prepend(std::move(bytes));
  exchange_->SendLong(std::move(rest), std::move(written));
}

void HttpAnswer::Ended(size_t prompt, const absl::Status& status) {
  ClientCall* const call = std::exchange(calls_[prompt], nullptr);
  --running_;
  if (!status.ok() || running_ == 0) EndWith(status);
  call->OnDone();  // the last event of the call and of this writer
}

void HttpAnswer::EndWith(const absl::Status& status) {
  if (over_) return;
  if (!status.ok()) NoteFailure(exchange_->request(), status);
  if (begun_ && status.ok()) {
    FinishStream();
  } else if (begun_) {
    std::string bytes;
    request_.format->Fail(ErrorOf(api_, status), bytes);
    SendBytes(std::move(bytes), request_.format->TakeRest(), nullptr);
    exchange_->EndEvents();
  } else if (status.ok()) {
    RespondWhole();
  } else {
    exchange_->Respond(Refusal(api_, ErrorOf(api_, status), request_id_));
  }
  End(/*client_left=*/false);
}

void HttpAnswer::FinishStream() {
  const auto finish = [this] {
    Event end;
    request_.format->Finish(end.bytes);
    end.rest = request_.format->TakeRest();
    return end;
  };
  const auto send = [this](Event end) {
    SendBytes(std::move(end.bytes), std::move(end.rest), nullptr);
    exchange_->EndEvents();
  };
  if (sent_bytes_ < kLongStreamBytes) return send(finish());
  const bool taken = RunOnPool([self = shared_from_this(), finish, send] {
    self->exchange_->Post([self, send, end = finish()]() mutable { send(std::move(end)); });
  });
  if (!taken) send(finish());
}

void HttpAnswer::RespondWhole() {
  const auto respond = [self = shared_from_this()] {
    std::string body;
    self->request_.format->Finish(body);
    HttpResponse response = JsonResponse(200, std::move(body));
    response.rest = self->request_.format->TakeRest();
    for (HttpHeader& header : self->Headers()) response.headers.push_back(std::move(header));
    self->exchange_->Respond(std::move(response));
  };
  if (!RunOnPool(respond)) respond();
}

std::vector<HttpHeader> HttpAnswer::Headers() const {
  std::vector<HttpHeader> headers = {{kRequestIdHeader, request_id_}};
  if (!request_.warning.empty()) headers.push_back({kWarningHeader, request_.warning});
  return headers;
}

bool HttpAnswer::RunOnPool(std::function<void()> work) {
  // The answer is there, and is given whatever the pool has to say.
  return pool_.TryRun(
      {.tenant = tenant_, .run = [work = std::move(work)](const absl::Status&) { work(); }});
}

void HttpAnswer::Break() {
  if (over_) return;
  if (!begun_) {
    return EndWith(absl::UnavailableError(
        "the request's other prompts were not accepted by any worker in time"));
  }
  exchange_->Break();
  End(/*client_left=*/false);
}

void HttpAnswer::End(bool client_left) {
  if (std::exchange(over_, true)) return;
  for (const Event& event : std::exchange(early_, {})) event.call->OnWriteDone(false);
  if (started_) CancelCalls(client_left);  // else the router may not know them yet
}

void HttpAnswer::CancelCalls(bool client_left) {
  for (ClientCall* call : calls_) {
    if (call == nullptr) continue;
    client_left ? call->OnCancel() : call->OnUnneeded();
  }
}

}  // namespace baton
