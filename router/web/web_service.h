// The router's HTTP API: who may call it, and what each route does.
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

// Thread-safe. Borrows `intake`, `page`, all of Parts and the Metrics. It is destroyed after the
// server whose handler it is was closed.
class WebService {
 public:
  struct Options {
    std::vector<std::string> cors_origins{};
    AllowedHosts hosts{};           // of requests without a key
    std::function<bool()> ready{};  // whether a request would find its workers
    // Which clients count that a front passes on; null where there are no certificates.
    std::shared_ptr<const PeerTrust> trust{};
  };
  WebService(Intake& intake, const Intake::Parts& parts, const PageService& page, Options options,
             Metrics& metrics);

  HttpServer::Handler handler();

 private:
  // A request on its way through the service, without its body.
  struct Call;

  std::optional<HttpResponse> Check(const HttpRequest& head);
  // Returns the counter of the request's bytes, for the caller's tenant. Nothing if the route takes
  // no body.
  std::optional<BodyRoom> RoomFor(const HttpRequest& head);
  // Whether the caller's limits leave it such a request now.
  absl::Status CheckQuota(const Caller& caller, const FoundRoute& found);
  void Handle(const std::shared_ptr<HttpExchange>& exchange, HttpBody body);
  // Makes the entry of the access log for a request to the path.
  std::shared_ptr<AccessEntry> EntryFor(const std::string& path) const;

  // Whether the role of whoever shows the certificate may ask for this.
  absl::Status CheckRole(const Peer& peer, const Door::Shown& shown, const FoundRoute& found);
  // The caller of a request, as far as its headers tell.
  absl::StatusOr<Caller> Identify(const HttpRequest& head, const FoundRoute& found);
  ApiContext ContextOf(const Call& call) const;
  absl::StatusOr<ApiRequest> Translate(const Call& call, absl::string_view body) const;
  // Refuses a caller that is at a limit, at once or later. A call holds no body meanwhile.
  void Refuse(const Call& call, const absl::Status& status);
  void Generate(const Call& call, HttpBody body);
  // Answers at once, on the pool.
  void AnswerOnPool(const Call& call, HttpBody body);
  // Returns the answer to a request that runs no prompt.
  absl::StatusOr<HttpResponse> AnswerFor(const Call& call, absl::string_view body) const;
  // A job of the call, whose body has so many bytes, for the pool.
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
