#include "client/status_command.h"

#include <httplib.h>
#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "client/fleet_status.h"
#include "common/base/log.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/net/client_key.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kStatusProgram[] = "baton status";
constexpr char kDefaultAddress[] = "127.0.0.1:8080";
constexpr char kPath[] = "/page/fleet";
constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr absl::Duration kWatchPause = absl::Seconds(1);
constexpr size_t kEventsShown = 8;
constexpr char kClearScreen[] = "\033[H\033[2J\033[3J";

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

void StatusCommand::AddFlags(FlagSet& flags) {
  flags.AddAddresses("http", addresses_,
                     "address of a router's HTTP (default: 127.0.0.1:8080); repeated: the fleet "
                     "of several routers");
  if (!watch_) flags.AddBool("watch", watch_, "show it again every second, until interrupted");
  flags.AddBool("json", json_, "print what the routers say as one JSON object a line");
  AddTlsFlags(flags, tls_);
  AddApiKeyFlag(flags, api_key_file_);
}

absl::Status StatusCommand::Check(const FlagSet& flags) const {
  for (const char* flag : {"tls-crl", "tls-server-name"}) {
    if (!flags.Given(flag)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flags.Label(flag),
                     ": HTTP is not checked by it here; leave it out, and call the router by "
                     "a name that its certificate has"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> StatusCommand::Fetch(const std::string& address,
                                          const Credentials& credentials) const {
  BATON_RETURN_IF_ERROR(credentials.CheckAddress("--http", address));
  BATON_ASSIGN_OR_RETURN(const ClientKey key, ClientKey::Read(api_key_file_, address, credentials));
  httplib::Client client(absl::StrCat(credentials.secure() ? "https://" : "http://", address),
                         tls_.cert_file, tls_.key_file);
  if (!client.is_valid()) {
    return absl::InvalidArgumentError(absl::StrCat("--http ", address, ": must be host:port"));
  }
  if (credentials.secure()) {
    client.set_ca_cert_path(tls_.ca_file);
    client.enable_server_certificate_verification(true);
  }
  const auto timeout = absl::ToChronoMilliseconds(kTimeout);
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  httplib::Headers headers;
  if (const std::string shown = key.Authorization(); !shown.empty()) {
    headers.emplace("Authorization", shown);
  }
  const httplib::Result answer = client.Get(kPath, headers);
  if (!answer) {
    return absl::UnavailableError(
        absl::StrCat(httplib::to_string(answer.error()),
                     "; is a router's --http-listen there, and does it speak ",
                     credentials.secure() ? "TLS" : "plain text", " (--tls-ca)?"));
  }
  if (answer->status == 404) {
    return absl::UnimplementedError(
        absl::StrCat("it has no ", kPath, "; is it a router of Baton?"));
  }
  if (answer->status != 200) return absl::UnavailableError(WhyRefused(*answer));
  return ParseFleet(answer->body);
}

Json StatusCommand::FetchAll(const Credentials& credentials, bool& failed) const {
  std::vector<Json> fleets;
  const std::vector<std::string> default_address = {kDefaultAddress};
  for (const std::string& address : addresses_.empty() ? default_address : addresses_) {
    absl::StatusOr<Json> fleet = Fetch(address, credentials);
    if (fleet.ok()) {
      fleets.push_back(*std::move(fleet));
      continue;
    }
    failed = true;
    std::cerr << kStatusProgram << ": " << address << ": " << fleet.status().message() << std::endl;
  }
  return fleets.empty() ? Json() : JoinFleets(fleets);
}

int StatusCommand::Run(const FlagSet& flags) {
  if (const absl::Status status = Check(flags); !status.ok())
    return ExitUsage(kStatusProgram, status);
  const absl::StatusOr<Credentials> credentials = Credentials::Create(tls_);
  if (!credentials.ok()) return ExitUsage(kStatusProgram, credentials.status());
  for (;;) {
    bool failed = false;
    const Json fleet = FetchAll(*credentials, failed);
    std::string text;
    if (watch_ && !json_ && isatty(STDOUT_FILENO) == 1) text = kClearScreen;
    if (!fleet.is_null()) {
      absl::StrAppend(&text, json_
                                 ? fleet.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                                 : FleetTable(fleet, kEventsShown));
      WriteOutput(text);
    }
    if (!watch_) return failed ? 1 : 0;
    absl::SleepFor(kWatchPause);
  }
}

}  // namespace baton
