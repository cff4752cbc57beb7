#include "client/status/fleet_client.h"

#include <httplib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "client/status/fleet_status.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/client_key.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPath[] = "/page/fleet";
constexpr absl::Duration kTimeout = absl::Seconds(5);

// What the router says of an error, or its status alone.
std::string WhyRefused(const httplib::Response& response) {
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const Json& message = body["error"]["message"];
    if (message.is_string()) return LogSafe(message.get<std::string>());
  }
  return absl::StrCat("HTTP status ", response.status);
}

}  // namespace

absl::StatusOr<Json> FetchFleet(const HttpUrl& url, const FleetAccess& access) {
  const bool secure = access.credentials.secure();
  if (url.tls != secure) {
    return absl::InvalidArgumentError(
        secure
            ? "http:// is plain text, but --tls-ca is given; write https://, or leave out --tls-ca"
            : "https:// needs --tls-ca, which names the authorities to trust");
  }
  const std::string address = url.Authority();
  BATON_RETURN_IF_ERROR(access.credentials.CheckAddress("--http", address));
  BATON_ASSIGN_OR_RETURN(const ClientKey key,
                         ClientKey::Read(access.api_key_file, address, access.credentials));
  httplib::Client client(absl::StrCat(secure ? "https://" : "http://", address),
                         access.tls.cert_file, access.tls.key_file);
  if (!client.is_valid()) {
    return absl::InvalidArgumentError(absl::StrCat("--http ", address, ": must be host:port"));
  }
  if (secure) {
    client.set_ca_cert_path(access.tls.ca_file);
    client.enable_server_certificate_verification(true);
  }
  const auto timeout = absl::ToChronoMilliseconds(kTimeout);
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  httplib::Headers headers;
  if (const std::string shown = key.Authorization(); !shown.empty()) {
    headers.emplace("Authorization", shown);
  }
  const std::string path = absl::StrCat(absl::StripSuffix(url.path, "/v1"),
                                        kPath);  // a base URL of OpenAI's API is taken
  const httplib::Result answer = client.Get(path, headers);
  if (!answer) {
    return absl::UnavailableError(
        absl::StrCat(httplib::to_string(answer.error()),
                     "; is this a router's --http-listen address, and does the router use ",
                     secure ? "TLS" : "plain text", " (--tls-ca)?"));
  }
  if (answer->status == 404) {
    return absl::UnimplementedError(
        absl::StrCat("the server has no ", path, "; is it a Baton router?"));
  }
  if (answer->status != 200) return absl::UnavailableError(WhyRefused(*answer));
  return ParseFleet(answer->body);
}

}  // namespace baton
