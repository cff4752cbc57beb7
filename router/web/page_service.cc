#include "router/web/page_service.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "router/api/api_error.h"
#include "router/web/browser_guard.h"
#include "router/web/refusal.h"
#include "router/web/shown_caller.h"

namespace baton {
namespace {

constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr char kChallenge[] = "WWW-Authenticate";
constexpr absl::string_view kRequests = "/page/requests/";

bool Names(absl::string_view if_none_match, absl::string_view etag) {
  for (absl::string_view one : absl::StrSplit(if_none_match, ',')) {
    one = absl::StripAsciiWhitespace(one);
    absl::ConsumePrefix(&one, "W/");
    if (one == "*" || one == etag) return true;
  }
  return false;
}

HttpResponse FileResponse(const PageFile& file, const HttpRequest& head) {
  HttpResponse response;
  response.headers = {{"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", std::string(file.etag)}};
  if (Names(head.Header("if-none-match"), file.etag)) {
    response.status = 304;
    return response;
  }
  response.headers.push_back({"Content-Type", std::string(file.content_type)});
  response.body = std::string(file.body);
  return response;
}

}  // namespace

absl::Status PageService::MayLook(const HttpRequest& head) const {
  const Door::Shown shown = ShownBy(head, parts_.door);
  const bool comes_from_here = IsLoopback(head.client.address) && !shown.proxied;
  // A page of another origin, or at another host name that resolves to this machine, does not count
  // as this machine, whatever key it shows.
  const absl::Status no_foreign_page = CheckPageOfThisMachine(head);
  const bool has_certificate = head.client.certificate.has_value();
  const std::string what = IsOfPage(head.path) ? "the page" : head.path;
  if (shown.authorization.empty() && !has_certificate) {
    if (comes_from_here) return no_foreign_page;
    const std::string open_to =
        absl::StrCat(what, " is open to this machine and to operators' keys");
    return parts_.door.takes_keys() ? absl::UnauthenticatedError(open_to)
                                    : absl::PermissionDeniedError(absl::StrCat(
                                          open_to, "; start the router with --api-keys"));
  }
  // A browser shows certificates by itself too.
  if (has_certificate || ShowsPassword(head)) BATON_RETURN_IF_ERROR(CheckOwnPage(head));
  BATON_ASSIGN_OR_RETURN(const Caller caller,
                         parts_.door.Identify(shown, absl::StrCat("GET ", head.path)));
  const bool by_certificate = shown.authorization.empty();
  const bool operates =
      by_certificate ? head.client.certificate->role == Role::kOperator : caller.limits.operates;
  if (operates || (comes_from_here && no_foreign_page.ok())) return absl::OkStatus();
  if (comes_from_here) return no_foreign_page;
  return absl::PermissionDeniedError(
      absl::StrCat(what,
                   " is open only to this machine and to operators, and the keys file has no "
                   "`operator = true` for this key's tenant"));
}

std::optional<HttpResponse> PageService::Check(const HttpRequest& head,
                                               const std::string& request_id) const {
  const absl::Status status = MayLook(head);
  if (status.ok()) return std::nullopt;
  HttpResponse response = Refusal(Api::kOpenAi, ErrorOf(Api::kOpenAi, status), request_id);
  if (absl::IsUnauthenticated(status)) {
    // In place of the API's, for a browser to ask for a password.
    std::erase_if(response.headers, [](const HttpHeader& header) {
      return absl::EqualsIgnoreCase(header.name, kChallenge);
    });
    response.headers.push_back({kChallenge, "Basic realm=\"Baton\", charset=\"UTF-8\""});
  }
  return response;
}

std::string PageService::WhyNotReady(const HttpRequest& head) const {
  constexpr size_t kMostWorkers = 8;
  if (!MayLook(head).ok()) return "";
  std::vector<std::string> whys;
  size_t others = 0;
  for (const WorkerReport& worker : parts_.board.Get()->workers) {
    if (worker.problem.empty()) continue;
    if (whys.size() == kMostWorkers) {
      ++others;
      continue;
    }
    whys.push_back(absl::StrCat(worker.role, " worker ", worker.name, " is ", worker.state, ": ",
                                worker.problem));
  }
  if (others > 0) whys.push_back(absl::StrCat("and ", others, " others"));
  return absl::StrJoin(whys, "; ");
}

std::optional<std::string> PageService::JsonAt(absl::string_view path) const {
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  if (path == "/page/fleet") {
    return FleetJson(now, parts_.router(), *parts_.board.Get(), parts_.events.Get());
  }
  if (path == "/page/history") {
    const absl::Time steady_now = SteadyNow();
    return HistoryJson(now, steady_now, parts_.fleet_history.Get(steady_now));
  }
  if (path == "/page/requests") return RequestsJson(parts_.history.Newest(SteadyNow()));
  if (path == "/page/kv") return KvJson(*parts_.board.Get());
  if (!absl::ConsumePrefix(&path, kRequests)) return std::nullopt;
  const std::optional<RequestRecord> record = parts_.history.Find(path, SteadyNow());
  if (!record.has_value()) return std::nullopt;
  return RequestJson(*record);
}

HttpResponse PageService::Answer(const HttpRequest& head, const std::string& request_id) const {
  for (const PageFile& file : parts_.files) {
    if (file.path == head.path) return FileResponse(file, head);
  }
  std::optional<std::string> json = JsonAt(head.path);
  if (!json.has_value()) {
    return Refusal(Api::kOpenAi,
                   ApiErrorWithStatus(
                       404, absl::StrCat("there is no ", LogSafe(head.path), " here, or no more")),
                   request_id);
  }
  HttpResponse response = JsonResponse(200, *std::move(json));
  response.headers.push_back({"Cache-Control", "no-store"});
  response.headers.push_back({kRequestIdHeader, request_id});
  return response;
}

}  // namespace baton
