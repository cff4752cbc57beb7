#include "router/fleet/push_address.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/numeric_address.h"
#include "common/base/own_address.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kAnyHost[] = "*";
constexpr char kUnix[] = "unix:";

// Whether two hosts are one: the same address, or the same name.
bool SameHost(const std::string& a, const std::string& b) {
  const std::optional<NumericAddress> number = ParseNumericAddress(a);
  if (number.has_value()) return number == ParseNumericAddress(b);
  return absl::EqualsIgnoreCase(absl::StripSuffix(a, "."), absl::StripSuffix(b, "."));
}

// The host of the address; empty if it has none. gRPC escapes the brackets of IPv6.
std::string HostOf(const std::string& address) {
  const auto parsed = ParseHostPort(absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}}));
  return parsed.ok() ? parsed->host : "";
}

bool ReachedByLoopback(const WorkerAddresses& worker) {
  return IsLoopback(worker.target) || IsLoopback(worker.connected);
}

absl::Status NoAddress(const WorkerAddresses& worker) {
  return absl::FailedPreconditionError(absl::StrCat(
      "advertises ",
      worker.advertised.empty() ? "no address" : absl::StrCat("'", LogSafe(worker.advertised), "'"),
      ", and the router's address for it, '", LogSafe(worker.target),
      "', has no host, so prefill workers could not connect to it; start the worker with "
      "--advertise HOST:PORT"));
}

bool MatchesHost(const std::string& pattern, const std::string& host) {
  if (pattern == kAnyHost) return true;
  const std::optional<AddressRange> range = ParseAddressRange(pattern);
  if (!range.has_value()) return SameHost(pattern, host);
  const std::optional<NumericAddress> number = ParseNumericAddress(host);
  return number.has_value() && range->Contains(*number);
}

}  // namespace

absl::Status CheckHostPattern(const std::string& pattern) {
  if (pattern == kAnyHost || ParseAddressRange(pattern).has_value()) return absl::OkStatus();
  const bool name = !pattern.empty() && std::none_of(pattern.begin(), pattern.end(), [](char c) {
    return absl::StrContains(" \t,/:[]*", c);
  });
  if (name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", LogSafe(pattern),
                   "' is not a host: write a name, an address, a range such as 10.0.0.0/8, or *"));
}

absl::StatusOr<std::string> FindPushAddress(const WorkerAddresses& worker,
                                            const std::vector<std::string>& others) {
  const std::string target = HostOf(worker.target), connected = HostOf(worker.connected);
  if (worker.advertised.empty()) {
    if (absl::StartsWith(worker.target, kUnix)) return NoAddress(worker);
    return worker.target;
  }
  BATON_ASSIGN_OR_RETURN(HostPort pushes, ParseHostPort(worker.advertised));
  const std::optional<NumericAddress> number = ParseNumericAddress(pushes.host);
  if (number.has_value()) {
    if (IsWildcard(*number) && target.empty()) return NoAddress(worker);
    pushes.host = IsWildcard(*number) ? target : NumericText(*number);
  }
  const bool on_this_machine =
      ReachedByLoopback(worker) &&
      (IsLoopback(worker.advertised) || (number.has_value() && IsOwnAddress(*number)));
  if (on_this_machine || SameHost(pushes.host, target) || SameHost(pushes.host, connected) ||
      SameHost(pushes.host, HostOf(worker.name)) ||
      std::any_of(others.begin(), others.end(),
                  [&](const std::string& pattern) { return MatchesHost(pattern, pushes.host); })) {
    return pushes.ToString();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "advertises the host '", LogSafe(pushes.host), "', but the router reaches it at '",
      LogSafe(target.empty() ? worker.target : target), "'",
      connected.empty() || connected == target ? "" : absl::StrCat(" (", LogSafe(connected), ")"),
      "; set the worker's --advertise to its own host or, if KV caches should be sent to the "
      "advertised host, start the router with --advertised-host=",
      LogSafe(pushes.host)));
}

bool RunsHere(const WorkerAddresses& worker) {
  if (ReachedByLoopback(worker)) return true;
  const std::optional<NumericAddress> number =
      ParseNumericAddress(HostOf(worker.connected.empty() ? worker.target : worker.connected));
  return !number.has_value() || IsOwnAddress(*number);
}

}  // namespace baton
