#include "client/status/status_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "client/status/fleet_client.h"
#include "client/status/fleet_status.h"
#include "common/base/standard_error.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"
#include "common/net/client_key.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kStatusProgram[] = "baton status";
constexpr char kDefaultRouter[] = "127.0.0.1:8080";
constexpr absl::Duration kWatchPause = absl::Seconds(1);
constexpr size_t kEventsShown = 8;

}  // namespace

void StatusCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kGeneral);
  if (!watch_) flags.AddBool("watch", watch_, "Refresh the view every second until interrupted");
  flags.AddBool("json", json_, "Print the fleet's state as one JSON object per line");
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddStrings("http=HOST:PORT", routers_,
                   absl::StrCat(kHttpRouterHelp, "; without it, ", kDefaultRouter,
                                ". Repeat for each router of the fleet"));
  AddTlsFlags(flags, tls_);
  AddApiKeyFlag(flags, api_key_file_);
  const std::string command = absl::StrCat("baton ", watch_ ? "top" : "status");
  flags.AddExample(command, "Show the fleet of the router on this machine");
  flags.AddExample(absl::StrCat(command, " --http 10.0.0.1:8080 --http 10.0.0.2:8080"),
                   "Show a fleet with two routers");
}

absl::Status StatusCommand::Check(const FlagSet& flags) const {
  for (const char* flag : {"tls-crl", "tls-server-name"}) {
    if (!flags.Given(flag)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flags.Label(flag),
                     ": is not supported for HTTP; leave it out, and use an address of the router "
                     "whose host name is in its certificate"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HttpUrl>> StatusCommand::Routers(bool tls) const {
  std::vector<HttpUrl> urls;
  const std::vector<std::string> default_router = {kDefaultRouter};
  for (const std::string& router : routers_.empty() ? default_router : routers_) {
    BATON_ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(router, tls));
    urls.push_back(std::move(url));
  }
  return urls;
}

Json StatusCommand::FetchAll(const std::vector<HttpUrl>& routers, const Credentials& credentials,
                             bool& failed) const {
  std::vector<Json> fleets;
  for (const HttpUrl& router : routers) {
    absl::StatusOr<Json> fleet = FetchFleet(
        router, {.tls = tls_, .credentials = credentials, .api_key_file = api_key_file_});
    if (fleet.ok()) {
      fleets.push_back(*std::move(fleet));
      continue;
    }
    failed = true;
    WriteErrorLine(kStatusProgram,
                   absl::StrCat(router.Authority(), ": ", fleet.status().message()));
  }
  return fleets.empty() ? Json() : JoinFleets(fleets);
}

int StatusCommand::Run(const FlagSet& flags) {
  if (const absl::Status status = Check(flags); !status.ok())
    return ExitUsage(kStatusProgram, status);
  const absl::StatusOr<Credentials> credentials = Credentials::Create(tls_);
  if (!credentials.ok()) return ExitUsage(kStatusProgram, credentials.status());
  const absl::StatusOr<std::vector<HttpUrl>> routers = Routers(credentials->secure());
  if (!routers.ok()) return ExitUsage(kStatusProgram, routers.status());
  for (;;) {
    bool failed = false;
    const Json fleet = FetchAll(*routers, *credentials, failed);
    if (!fleet.is_null()) {
      if (watch_ && !json_) ClearTerminal();
      WriteOutput(json_ ? fleet.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                        : FleetTable(fleet, kEventsShown));
    }
    if (!watch_) return failed ? 1 : 0;
    absl::SleepFor(kWatchPause);
  }
}

}  // namespace baton
