// The HTTP proxy of a client's own connection, as the environment names it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

struct ProxyChoice {
  std::string variable{};   // environment variable that names the proxy; empty: connect directly
  std::string url{};        // http://[user:password@]host[:port]; empty: connect directly
  std::string shown_url{};  // the proxy's URL without user and password
};

// Returns the value of an environment variable, or nullopt if it is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;

// Reads the environment of this process.
std::optional<std::string> ReadEnvironment(const char* name);

// Chooses the proxy for a client's connection to `address` (as ParseHostPort takes it, or
// "unix:...").
//
// The proxy is the value of the first of grpc_proxy, https_proxy and http_proxy that is set, as in
// gRPC; an empty value means none. A value without a scheme is a host and port. gRPC speaks HTTP to
// proxies and nothing else: for a URL of another scheme, or one that it cannot read, `variable` and
// `shown_url` are set and `url` is empty.
//
// No proxy is used for a Unix socket, for this machine (localhost and names below it, loopback and
// wildcard addresses), and for what no_grpc_proxy, or else no_proxy, or else NO_PROXY lists:
// entries between commas or blanks, each of them "*", an address, a range of addresses in CIDR form
// (IPv4 or IPv6), or the end of a name, with or without a leading dot. gRPC itself reads
// "ample.org" as an end of "example.org", so this function does so too.
//
// Pure and thread-safe if `variable` is.
ProxyChoice ChooseProxy(absl::string_view address, const EnvironmentReader& variable);

}  // namespace baton
