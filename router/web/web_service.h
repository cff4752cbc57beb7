// The router's HTTP API: checks who may call it, and serves each route.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

#include "common/certificates/peer_trust.h"
#include "router/api/answer_format.h"
#include "router/front/intake.h"
#include "router/http/http_server.h"
#include "router/web/allowed_hosts.h"
#include "router/web/model_answers.h"
#include "router/web/page_service.h"
#include "router/web/routes.h"
#include "router/web/warning_log.h"
#include "router/web/web_metrics.h"

namespace baton {

// Thread-safe. Borrows `intake`, `page`, all of Parts and the Metrics. REQUIRES: the server that
// uses its handler is closed before it is destroyed.
class WebService {
 public:
  struct Options {
    std::vector<std::string> cors_origins{};
    AllowedHosts hosts{};           // allowed `Host` values of requests without a key
    std::function<bool()> ready{};  // whether a request would find its workers
    // Refuses clients behind a front that are of another trust domain; null without certificates.
    std::shared_ptr<const PeerTrust> trust{};
  };
  WebService(Intake& intake, const Intake::Parts& parts, const PageService& page, Options options,
             Metrics& metrics);

  HttpServer::Handler handler();

 private:
  // A request on its way through the service, without its body.
  struct Call;

  std::optional<HttpResponse> Check(const HttpRequest& head);
  // Returns the counter of the request's bytes, for the caller's tenant; nullopt if the route takes
  // no body.
  std::optional<BodyRoom> RoomFor(const HttpRequest& head);
  // An error if the request would exceed a limit of the caller now.
  absl::Status CheckQuota(const Caller& caller, const FoundRoute& found);
  void Handle(const std::shared_ptr<HttpExchange>& exchange, HttpBody body);
  // Makes the entry of the access log for a request to the path.
  std::shared_ptr<AccessEntry> EntryFor(const std::string& path) const;

  // An error if the peer's role may not use the route.
  absl::Status CheckRole(const Peer& peer, const Door::Shown& shown, const FoundRoute& found);
  // Identifies the caller of a request by its headers.
  absl::StatusOr<Caller> Identify(const HttpRequest& head, const FoundRoute& found);
  ApiContext ContextOf(const Call& call) const;
  absl::StatusOr<ApiRequest> Translate(const Call& call, absl::string_view body) const;
  // Refuses a caller that is at a limit, at once or later. Its body is not kept meanwhile.
  void Refuse(const Call& call, const absl::Status& status);
  void Generate(const Call& call, HttpBody body);
  // Answers a request that runs no prompt, on the pool.
  void AnswerOnPool(const Call& call, HttpBody body);
  // Returns the answer to a request that runs no prompt.
  absl::StatusOr<HttpResponse> AnswerFor(const Call& call, absl::string_view body) const;
  // Makes the pool's job for the call, whose body has `body_bytes` bytes.
  static PreparingPool::Job JobOf(const Call& call, size_t body_bytes,
                                  absl::AnyInvocable<void(const absl::Status& may_run)> run);

  Intake& intake_;
  const Intake::Parts parts_;
  const PageService& page_;
  const Options options_;
  const ModelAnswers answers_;
  const Metrics& all_metrics_;
  WebMetrics metrics_;
  WarningLog warnings_;
};

}  // namespace baton
