#include "router/web/web_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/access/access_table.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/net/metrics_server.h"
#include "router/access_log/access_entry.h"
#include "router/anthropic/messages_request.h"
#include "router/api/api_error.h"
#include "router/front/client_identity.h"
#include "router/openai/chat_request.h"
#include "router/openai/completion_request.h"
#include "router/request/errors.h"
#include "router/responses/responses_request.h"
#include "router/web/browser_guard.h"
#include "router/web/http_answer.h"
#include "router/web/refusal.h"
#include "router/web/request_id.h"
#include "router/web/shown_caller.h"

namespace baton {
namespace {

constexpr int kUnavailable = 503;

HttpResponse MetricsResponse(std::string page) {
  HttpResponse response;
  response.headers = {{"Content-Type", kMetricsContentType}, {"Cache-Control", "no-store"}};
  response.body = std::move(page);
  return response;
}

}  // namespace

struct WebService::Call {
  std::shared_ptr<HttpExchange> exchange;
  FoundRoute found;
  Caller caller;
  std::string request_id;
  absl::Time received;

  const HttpRequest& request() const { return exchange->request(); }
  void Respond(HttpResponse response) const {
    response.headers.push_back({kRequestIdHeader, request_id});
    exchange->Respond(std::move(response));
  }
  void Refuse(const absl::Status& status) const {
    NoteFailure(request(), status);
    exchange->Respond(Refusal(found.api, ErrorOf(found.api, status), request_id));
  }
};

WebService::WebService(Intake& intake, const Intake::Parts& parts, const PageService& page,
                       Options options, Metrics& metrics)
    : intake_(intake),
      parts_(parts),
      page_(page),
      options_(std::move(options)),
      answers_(parts_),
      all_metrics_(metrics),
      metrics_(metrics) {}

HttpServer::Handler WebService::handler() {
  return {
      .check = [this](const HttpRequest& head) { return Check(head); },
      .room = [this](const HttpRequest& head) { return RoomFor(head); },
      .handle = [this](const std::shared_ptr<HttpExchange>& exchange,
                       HttpBody body) { Handle(exchange, std::move(body)); },
      .error_answer =
          [](const HttpRequest& request, int status, const std::string& message) {
            ApiError error = ApiErrorWithStatus(status, message);
            if (status == kUnavailable) error.retry_after = kRetryDelay;
            return Refusal(ApiOf(request), error, RequestIdOf(request));
          },
      .answered =
          [this](const std::string& path, int status, std::optional<absl::Duration> since_head) {
            metrics_.Answered(path, status, since_head);
          },
      .entry = [this](const std::string& path) { return EntryFor(path); },
      .shares = [](const std::string& path) { return !IsForOperators(path); }};
}

std::shared_ptr<AccessEntry> WebService::EntryFor(const std::string& path) const {
  constexpr char kClientLeft[] = "499";  // as other HTTP servers log it
  const absl::string_view route = RouteName(path);
  // Probes, scrapers and open pages ask again and again.
  const bool asked_often = IsProbe(path) || IsForOperators(path);
  return AccessEntry::Begin(
      parts_.access_log,
      {.route = std::string(route), .unanswered = kClientLeft, .only_errors = asked_often},
      SteadyNow());
}

absl::Status WebService::CheckRole(const Peer& peer, const Door::Shown& shown,
                                   const FoundRoute& found) {
  absl::Status status =
      options_.trust != nullptr ? options_.trust->CheckDomain(peer) : absl::OkStatus();
  if (status.ok()) status = CheckAccess(peer, found.method);
  if (!status.ok()) parts_.door.RefusedRole(peer, shown, found.method, status);
  return status;
}

absl::StatusOr<Caller> WebService::Identify(const HttpRequest& head, const FoundRoute& found) {
  if (found.open) return Caller{};
  const absl::StatusOr<std::optional<Peer>> certified = CertifiedBy(head);
  const Door::Shown shown = ShownBy(head, parts_.door);
  if (certified.ok() && certified->has_value()) {
    BATON_RETURN_IF_ERROR(CheckRole(**certified, shown, found));
  }
  const bool anonymous = shown.authorization.empty() && !head.client.certificate.has_value();
  // If unknown callers are not served, a page gets the same refusal as they do.
  if (anonymous && parts_.door.ServesUnknown(shown)) {
    BATON_RETURN_IF_ERROR(CheckNoForeignPage(head, options_.hosts, options_.cors_origins));
  }
  if (ShowsPassword(head)) BATON_RETURN_IF_ERROR(CheckOwnPage(head));
  absl::StatusOr<Caller> caller =
      parts_.door.Identify(shown, absl::StrCat(head.method, " ", head.path));
  if (caller.ok() && head.access != nullptr) {
    head.access->Identified(caller->tenant, caller->identified);
  }
  return caller;
}

std::optional<HttpResponse> WebService::Check(const HttpRequest& head) {
  constexpr int kMethodNotAllowed = 405, kUnsupportedMediaType = 415;
  const Api api = ApiOf(head);
  const auto refuse = [&](const ApiError& error) { return Refusal(api, error, RequestIdOf(head)); };
  const absl::StatusOr<FoundRoute> found = FindRoute(head);
  if (absl::IsFailedPrecondition(found.status())) {
    const std::string allowed(found.status().message());
    HttpResponse response = refuse(ApiErrorWithStatus(
        kMethodNotAllowed, absl::StrCat(head.path, " has other methods: ", allowed)));
    response.headers.push_back({"Allow", allowed});
    return response;
  }
  if (!found.ok()) {
    return refuse(ApiErrorWithStatus(404, found.status().message()));
  }
  if (found->route == Route::kPage || found->route == Route::kMetrics) {
    return page_.Check(head, RequestIdOf(head));
  }
  absl::Status status = found->generates ? intake_.CheckOpen() : intake_.CheckMemory();
  if (found->open) status = absl::OkStatus();
  if (status.ok()) status = Identify(head, *found).status();
  if (!status.ok()) {
    if (found->generates) intake_.CountRefused(status);
    NoteFailure(head, status);
    return refuse(ErrorOf(api, status));
  }
  if (!found->posts) return std::nullopt;
  // A caller that shows no key may be a web page, which cannot send this type without a preflight.
  const bool may_be_page = ShownBy(head, parts_.door).authorization.empty() || ShowsPassword(head);
  status = CheckContentType(head, /*needed=*/may_be_page);
  if (!status.ok()) return refuse(ApiErrorWithStatus(kUnsupportedMediaType, status.message()));
  status = CheckContentEncoding(head);
  if (status.ok()) return std::nullopt;
  HttpResponse response = refuse(ApiErrorWithStatus(kUnsupportedMediaType, status.message()));
  response.headers.push_back({"Accept-Encoding", "identity"});
  return response;
}

std::optional<BodyRoom> WebService::RoomFor(const HttpRequest& head) {
  const absl::StatusOr<FoundRoute> found = FindRoute(head);  // as Check has found it
  if (!found.ok() || !found->posts) return std::nullopt;
  const absl::StatusOr<Caller> caller = Identify(head, *found);
  if (!caller.ok()) return std::nullopt;  // the key was revoked just now: Handle refuses it
  // The body of a request that its tenant may not send now is not waited for.
  if (absl::Status status = CheckQuota(*caller, *found); !status.ok()) {
    return [status = std::move(status)](size_t) { return status; };
  }
  return [body = parts_.admission.NewBody(caller->tenant)](size_t bytes) mutable {
    return body.Grow(bytes, SteadyNow());
  };
}

absl::Status WebService::CheckQuota(const Caller& caller, const FoundRoute& found) {
  const absl::Time now = SteadyNow();
  if (found.generates) return parts_.quotas.Check(caller, now);
  return Tokenizes(found.route) ? parts_.quotas.CheckTokenizing(caller, now)
                                : parts_.quotas.CheckRequest(caller, now);
}

void WebService::Handle(const std::shared_ptr<HttpExchange>& exchange, HttpBody body) {
  const HttpRequest& head = exchange->request();
  const absl::StatusOr<FoundRoute> found = FindRoute(head);  // as Check has found it
  if (!found.ok()) return;
  Call call{.exchange = exchange,
            .found = *found,
            .caller = {},
            .request_id = RequestIdOf(head),
            .received = SteadyNow()};
  if (found->route == Route::kPage) {  // Check has found who looks
    return exchange->Respond(page_.Answer(head, call.request_id));
  }
  if (found->route == Route::kMetrics) return call.Respond(MetricsResponse(all_metrics_.Scrape()));
  if (found->route == Route::kVersion) {
    return call.Respond(JsonResponse(200, absl::StrCat(R"({"version":")", Version(), R"("})")));
  }
  absl::StatusOr<Caller> caller = Identify(head, *found);
  if (!caller.ok()) return call.Refuse(caller.status());
  call.caller = *std::move(caller);
  exchange->CountFor(call.caller.tenant);
  if (call.found.route == Route::kHealth) {
    if (intake_.refusing()) return call.Refuse(RouterDraining());
    if (options_.ready && !options_.ready()) {
      const std::string why = page_.WhyNotReady(head);
      return call.Refuse(
          NoReadyWorker(absl::StrCat("no worker is ready", why.empty() ? "" : ": ", why)));
    }
    return call.Respond(JsonResponse(200, R"({"status":"ok"})"));
  }
  if (!body.status.ok()) {
    if (call.found.generates) intake_.CountRefused(body.status);
    return Refuse(call, body.status);
  }
  if (call.found.generates) return Generate(call, std::move(body));
  AnswerOnPool(call, std::move(body));
}

void WebService::Refuse(const Call& call, const absl::Status& status) {
  parts_.refusals.Refuse(call.caller, status, [call, status] { call.Refuse(status); });
}

ApiContext WebService::ContextOf(const Call& call) const {
  return {
      .model = parts_.model.name(),
      .request_id = call.request_id,
      .answer_id = NewId(),
      .created = absl::ToUnixSeconds(absl::Now()),
      .tool_form = parts_.model.tool_form(),
      .tool_form_for = [this](const v1::ChatInput& chat) { return parts_.model.ToolFormFor(chat); },
      .default_sampling = parts_.model.default_sampling()};
}

absl::StatusOr<ApiRequest> WebService::Translate(const Call& call, absl::string_view body) const {
  const ApiContext context = ContextOf(call);
  switch (call.found.route) {
    case Route::kChatCompletions:
      return ReadChatRequest(body, context);
    case Route::kCompletions:
      return ReadCompletionRequest(body, context);
    case Route::kResponses:
      return ReadResponsesRequest(body, context);
    default:
      return ReadMessagesRequest(body, context);
  }
}

absl::StatusOr<HttpResponse> WebService::AnswerFor(const Call& call, absl::string_view body) const {
  const ApiContext context = ContextOf(call);
  return answers_.Answer({.head = call.request(),
                          .route = call.found,
                          .caller = call.caller,
                          .context = context,
                          .body = body});
}

PreparingPool::Job WebService::JobOf(const Call& call, size_t body_bytes,
                                     absl::AnyInvocable<void(const absl::Status& may_run)> run) {
  return {.tenant = call.caller.tenant,
          .cost = AboutTokens(body_bytes),
          .cancelled = [exchange = call.exchange] { return exchange->gone(); },
          .run = std::move(run)};
}

void WebService::Generate(const Call& call, HttpBody body) {
  if (const absl::Status status = parts_.quotas.Check(call.caller, call.received); !status.ok()) {
    intake_.CountRefused(status);
    return Refuse(call, status);
  }
  const size_t body_bytes = body.bytes.size();
  auto run = [this, call, body = std::move(body)](const absl::Status& may_run) mutable {
    absl::StatusOr<ApiRequest> request = may_run.ok() ? Translate(call, body.bytes) : may_run;
    body.Drop();  // makes room for the requests that were read from it
    if (!request.ok()) {
      intake_.CountRefused(request.status());
      return call.Refuse(request.status());
    }
    if (!request->warning.empty()) warnings_.Log(call.request_id, request->warning);
    std::vector<const v1::GenerateRequest*> prompts;
    for (const v1::GenerateRequest& prompt : request->prompts) prompts.push_back(&prompt);
    absl::StatusOr<std::vector<Intake::Place>> places =
        intake_.Admit(call.caller, prompts, call.received, /*deadline=*/absl::InfiniteFuture(),
                      call.found.api == Api::kAnthropic ? LongAnswers::kCut : LongAnswers::kRefuse);
    if (!places.ok()) return Refuse(call, places.status());
    for (Intake::Place& place : *places) {
      intake_.Trace({.parent = call.request().Header(kTraceParentHeader),
                     .state = call.request().Header(kTraceStateHeader)},
                    place);
      place.access = call.request().access;
    }
    const auto answer =
        std::make_shared<HttpAnswer>(call.exchange, *std::move(request), call.found.api,
                                     call.request_id, call.caller.tenant, parts_.pool);
    for (size_t i = 0; i < places->size(); ++i) {
      intake_.Start(std::move((*places)[i]), answer->prompts()[i], answer->NewWriter(i),
                    [answer, i](uint32_t tokens) { answer->Settled(i, tokens); });
    }
    answer->Started();
  };
  if (parts_.pool.TryRun(JobOf(call, body_bytes, std::move(run)))) return;
  intake_.CountRefused(TokenizersBusy());
  call.Refuse(TokenizersBusy());
}

void WebService::AnswerOnPool(const Call& call, HttpBody body) {
  if (const absl::Status status = Tokenizes(call.found.route)
                                      ? parts_.quotas.CountTokenizing(call.caller, call.received)
                                      : parts_.quotas.CountRequest(call.caller, call.received);
      !status.ok()) {
    return Refuse(call, status);
  }
  const size_t body_bytes = body.bytes.size();
  auto run = [this, call, body = std::move(body)](const absl::Status& may_run) mutable {
    absl::StatusOr<HttpResponse> answer = may_run.ok() ? AnswerFor(call, body.bytes) : may_run;
    body.Drop();
    if (!answer.ok()) return call.Refuse(answer.status());
    call.Respond(*std::move(answer));
  };
  if (!parts_.pool.TryRun(JobOf(call, body_bytes, std::move(run)))) call.Refuse(TokenizersBusy());
}

}  // namespace baton
