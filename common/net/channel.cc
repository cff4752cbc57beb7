#include "common/net/channel.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"

#include "common/access/access_table.h"
#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/compression.h"
#include "common/net/proxy_choice.h"
#include "common/rpc/duration.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

// Sets the arguments for channels between servers. If an argument is set twice, gRPC takes the
// first.
void SetBetweenParts(bool bulk, grpc::ChannelArguments& arguments) {
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   ToMilliseconds(bulk ? kBulkKeepaliveTime : kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   ToMilliseconds(bulk ? kBulkKeepaliveTimeout : kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A restarted worker is tried again soon; gRPC's default would back off for up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Time for two DNS servers to answer, or not, one after the other; gRPC's default is two minutes.
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, 10'000);
}

// Makes the window of a stream 1 KiB, about 40 messages of one token. After so many unread bytes
// the worker notices that the router is behind, and puts the following tokens into one message.
void SetShortStreams(grpc::ChannelArguments& arguments) {
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // the probe would widen the window again
}

// Sets the arguments for channels that push KV.
void SetBulk(grpc::ChannelArguments& arguments) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a TCP connection of its own
}

RoleSet ServerRoles(ChannelPurpose purpose) {
  switch (purpose) {
    case ChannelPurpose::kClient:
      return kWhoAnswersClients;
    case ChannelPurpose::kPrefill:
      return {Role::kPrefill};
    case ChannelPurpose::kDecode:
    case ChannelPurpose::kBulk:
      return {Role::kDecode};
  }
  return {};
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(absl::string_view address,
                                                           const Credentials& credentials,
                                                           ChannelPurpose purpose) {
  if (!absl::StartsWith(address, "unix:")) {
    BATON_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
    if (parsed.port == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", address, "': cannot connect to port 0; give the server's port"));
    }
  }
  BATON_RETURN_IF_ERROR(credentials.CheckAddress("connection to", address));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  for (const auto& [name, value] : kNoCompression) arguments.SetInt(name, value);
  // A server that comes back at another address is found there soon; gRPC's default would look up a
  // name every 30 s at most.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  const bool bulk = purpose == ChannelPurpose::kBulk;
  if (purpose == ChannelPurpose::kClient) {
    SetClientProxy(address, arguments);
  } else {
    SetBetweenParts(bulk, arguments);
  }
  if (bulk) SetBulk(arguments);
  if (purpose != ChannelPurpose::kClient && !bulk) SetShortStreams(arguments);
  const auto channel_credentials = credentials.ForChannel(ServerRoles(purpose), arguments);
  return grpc::CreateCustomChannel(std::string(address), channel_credentials, arguments);
}

void SetClientProxy(absl::string_view address, grpc::ChannelArguments& arguments) {
  const ProxyChoice proxy = ChooseProxy(address, ReadEnvironment);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, proxy.url.empty() ? 0 : 1);
  if (proxy.variable.empty()) return;
  const std::string shown = LogSafe(proxy.shown_url);
  if (proxy.url.empty()) {
    LogWarning("connecting to {} directly: {} names {}, and gRPC uses http:// proxies only",
               LogSafe(address), proxy.variable, shown);
    return;
  }
  LogInfo("connecting to {} through the proxy {} of {}; no_proxy lists hosts to reach directly",
          LogSafe(address), shown, proxy.variable);
  arguments.SetString(GRPC_ARG_HTTP_PROXY, proxy.url);
}

}  // namespace baton
