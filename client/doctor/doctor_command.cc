#include "client/doctor/doctor_command.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include <nlohmann/json.hpp>

#include "client/doctor/certificate_findings.h"
#include "client/doctor/clock_check.h"
#include "client/doctor/cpu_check.h"
#include "client/doctor/findings_text.h"
#include "client/doctor/fleet_check.h"
#include "client/doctor/gpu_check.h"
#include "client/doctor/limit_check.h"
#include "client/doctor/model_check.h"
#include "client/doctor/reach_check.h"
#include "client/doctor/secret_check.h"
#include "client/status/fleet_client.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/http_url.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/certificates/credentials.h"
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"
#include "common/net/client_key.h"
#include "common/net/server_flags.h"

namespace baton {
namespace {

constexpr char kServe[] = "baton serve";  // its defaults are checked if there are no files
constexpr char kServesHttp[] = "127.0.0.1:8080";
constexpr int kServesWorkers = 2;
constexpr size_t kMostServers = 64;  // servers to ask; each may take some seconds

void Append(Findings more, Findings& findings) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

// The workers that would share this machine's GPUs.
int GpuWorkers(const std::vector<ServerConfig>& configs) {
  if (configs.empty()) return kServesWorkers;
  return static_cast<int>(std::count_if(
      configs.begin(), configs.end(),
      [](const ServerConfig& config) { return !config.router && config.device != "cpu"; }));
}

// Whether the server runs already, by the port that it serves at.
bool Runs(const std::string& server, const std::vector<PortFacts>& ports) {
  return std::any_of(ports.begin(), ports.end(), [&](const PortFacts& port) {
    return port.server == server && port.flag == "--listen" && HeldByBaton(port);
  });
}

// The HTTP of a router that runs here; empty: none does. Of 0.0.0.0 it is at loopback.
std::string HttpOfThisMachine(const std::vector<PortFacts>& ports) {
  for (const PortFacts& port : ports) {
    if (port.flag != "--http-listen" || !HeldByBaton(port)) continue;
    absl::StatusOr<HostPort> address = ParseHostPort(port.address);
    if (!address.ok()) continue;
    if (address->host == "0.0.0.0" || address->host == "::") address->host = "127.0.0.1";
    return address->ToString();
  }
  return "";
}

// What a router with that file would find of its workers.
Findings CheckWorkersOf(const ServerConfig& config, size_t& left) {
  const auto credentials = config.tls.for_clients_only
                               ? absl::StatusOr<Credentials>(Credentials::Loopback())
                               : Credentials::Create(config.tls);
  Findings findings;
  for (const auto& [role, purpose, addresses] :
       {std::tuple("prefill", ChannelPurpose::kPrefill, &config.prefill),
        std::tuple("decode", ChannelPurpose::kDecode, &config.decode)}) {
    for (const std::string& address : *addresses) {
      if (left == 0) return findings;
      --left;
      const ReachTarget target{.address = address,
                               .whose = absl::StrCat(role, " worker of ", config.path),
                               .purpose = purpose,
                               .health = credentials.ok()};
      Append(ReachFindings(GatherReachFacts(
                 target, credentials.ok() ? *credentials : Credentials::Loopback())),
             findings);
    }
  }
  return findings;
}

}  // namespace

void DoctorCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kGeneral);
  flags.AddPositionals("CONFIG", config_files_,
                       "Configuration files (TOML) to check: those that servers get by --config");
  flags.AddString("model=FILE", model_,
                  "GGUF file or Hugging Face folder to check, besides the models that the "
                  "configuration files name");
  flags.AddBool("json", json_, kJsonHelp);
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddAddress("server", server_, "Router to reach by gRPC");
  flags.AddString("http=HOST:PORT", http_,
                  absl::StrCat(kHttpRouterHelp, "; without it, one that runs on this machine"));
  AddTlsFlags(flags, tls_);
  AddApiKeyFlag(flags, api_key_file_);
  flags.AddExample("baton doctor --model model.gguf", "Check this machine before a first start");
  flags.AddExample("baton doctor router.toml decode.toml", "Check what these files configure");
  flags.AddExample("baton doctor --http 127.0.0.1:8080", "Check a fleet that runs");
}

std::vector<ServerConfig> DoctorCommand::ReadConfigs(Findings& findings) const {
  std::vector<ServerConfig> configs;
  for (const std::string& path : config_files_) {
    absl::StatusOr<ServerConfig> config = ReadServerConfig(path);
    Finding& finding = findings.emplace_back(Finding{.check = "config.file", .subject = path});
    if (!config.ok()) {
      finding.verdict = Verdict::kFailed;
      finding.found = std::string(config.status().message());
      finding.remedy = "correct the file; the server's --check-config checks all of its keys";
      continue;
    }
    finding.found = config->router ? "configures a router" : "configures a worker";
    configs.push_back(*std::move(config));
  }
  return configs;
}

std::vector<PortFacts> DoctorCommand::GatherPorts(const std::vector<ServerConfig>& configs) const {
  std::vector<PortFacts> ports;
  for (const ServerConfig& config : configs) {
    for (const OpenedAddress& opened : config.opened) {
      ports.push_back(GatherPortFacts(config.path, opened.flag, opened.address));
    }
  }
  if (!config_files_.empty()) return ports;
  ports.push_back(GatherPortFacts(kServe, "--listen", ServerFlags().listen));
  ports.push_back(GatherPortFacts(kServe, "--http-listen", kServesHttp));
  for (PortFacts& port : ports) port.chosen = false;
  return ports;
}

void DoctorCommand::CheckModels(const std::vector<ServerConfig>& configs,
                                const std::vector<PortFacts>& ports, Findings& findings) const {
  std::map<std::string, int> workers;  // number of workers to start, by model
  for (const ServerConfig& config : configs) {
    // A router needs the metadata alone.
    if (config.router || config.model.empty()) continue;
    workers[config.model] += Runs(config.path, ports) ? 0 : 1;
  }
  if (!model_.empty() && workers.count(model_) == 0) {
    workers[model_] = Runs(kServe, ports) ? 0 : kServesWorkers;
  }
  if (workers.empty()) {
    findings.push_back({.check = "model.served",
                        .verdict = Verdict::kSkipped,
                        .found = "no model is given, neither by --model nor by a worker's file"});
  }
  for (const auto& [model, count] : workers) {
    Append(ModelFindings(GatherModelNeeds(model, count)), findings);
  }
}

void DoctorCommand::CheckFiles(const std::vector<ServerConfig>& configs, Findings& findings) const {
  const absl::Time now = absl::Now();
  const auto check = [&](const std::string& user, RoleSet roles, const TlsFlags& tls) {
    Append(CertificateFindings(GatherCertificateUse(user, roles, tls, now), now), findings);
  };
  for (const ServerConfig& config : configs) {
    check(config.path,
          config.router ? RoleSet{Role::kRouter} : RoleSet{Role::kPrefill, Role::kDecode},
          config.tls);
    Append(SecretFindings(config), findings);
  }
  check("baton doctor", {Role::kClient, Role::kOperator}, tls_);
}

void DoctorCommand::CheckServers(const std::vector<ServerConfig>& configs,
                                 Findings& findings) const {
  size_t left = kMostServers;
  for (const ServerConfig& config : configs) Append(CheckWorkersOf(config, left), findings);
  if (server_.empty()) {
    if (left < kMostServers) return;
    findings.push_back({.check = "name.resolves",
                        .verdict = Verdict::kSkipped,
                        .found = "no server is given, neither by --server nor by a router's file"});
    return;
  }
  const absl::StatusOr<Credentials> credentials = Credentials::Create(tls_);
  const ReachTarget target{
      .address = server_, .whose = "router of --server", .health = credentials.ok()};
  Append(ReachFindings(
             GatherReachFacts(target, credentials.ok() ? *credentials : Credentials::Loopback())),
         findings);
}

void DoctorCommand::CheckFleet(const std::vector<PortFacts>& ports, Findings& findings) const {
  const std::string address = http_.empty() ? HttpOfThisMachine(ports) : http_;
  Finding finding{.check = "fleet.answer", .subject = address};
  const auto skip_clock = [&findings] {
    findings.push_back({.check = "clock.offset",
                        .verdict = Verdict::kSkipped,
                        .found = "no router reported its time (see --http)"});
  };
  if (address.empty()) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "no router is given by --http, and none runs on this machine";
    findings.push_back(std::move(finding));
    return skip_clock();
  }
  const absl::StatusOr<Credentials> credentials = Credentials::Create(tls_);
  ClockFacts clock;
  clock.server = address;
  const absl::Time begun = SteadyNow();
  clock.before = absl::Now();
  const auto fleet = [&]() -> absl::StatusOr<nlohmann::ordered_json> {
    if (!credentials.ok()) return credentials.status();
    BATON_ASSIGN_OR_RETURN(const HttpUrl url, ParseHttpUrl(address, credentials->secure()));
    return FetchFleet(url,
                      {.tls = tls_, .credentials = *credentials, .api_key_file = api_key_file_});
  }();
  clock.after = absl::Now();
  clock.elapsed = SteadyNow() - begun;
  if (!fleet.ok()) {
    // A router that was not named may be of another user, who has the key.
    finding.verdict = http_.empty() ? Verdict::kWarning : Verdict::kFailed;
    finding.found = std::string(fleet.status().message());
    finding.remedy =
        "give --tls-ca if the router uses TLS, and an operator's key (--api-key-file) or "
        "certificate if it runs on another machine";
    findings.push_back(std::move(finding));
    return skip_clock();
  }
  finding.found = "the router reported its fleet";
  findings.push_back(std::move(finding));
  Append(FleetFindings(address, *fleet), findings);
  const auto now = fleet->find("now");
  if (now == fleet->end() || !now->is_number()) return skip_clock();
  clock.told = absl::UnixEpoch() + absl::Seconds(now->get<double>());
  Append(ClockFindings(clock), findings);
}

int DoctorCommand::Run(const FlagSet&) {
  if (!http_.empty()) {
    const absl::StatusOr<HttpUrl> router = ParseHttpUrl(http_);
    if (!router.ok()) return ExitUsage("baton doctor", router.status());
  }
  Findings findings;
  const std::vector<ServerConfig> configs = ReadConfigs(findings);
  const std::vector<PortFacts> ports = GatherPorts(configs);
  CheckModels(configs, ports, findings);
  Append(CpuFindings(GatherCpuFacts()), findings);
  Append(GpuFindings(GatherGpuFacts(), GpuWorkers(configs)), findings);
  Append(LimitFindings(GatherLimitFacts()), findings);
  for (const PortFacts& port : ports) findings.push_back(PortFinding(port));
  CheckFiles(configs, findings);
  CheckServers(configs, findings);
  CheckFleet(ports, findings);
  WriteOutput(json_ ? FindingsJson(findings) : FindingsTable(findings));
  return AnyFailed(findings) ? 1 : 0;
}

}  // namespace baton
