// `baton status` shows a fleet in a terminal; `baton top` is `baton status --watch`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <nlohmann/json.hpp>

#include "common/base/http_url.h"
#include "common/certificates/credentials.h"
#include "common/certificates/tls_flags.h"
#include "common/flags/command.h"

namespace baton {

// Asks one or more routers over HTTP and prints one table. Exit codes: 0; 1 when a router did not
// answer; 2 with wrong flags.
class StatusCommand : public Command {
 public:
  explicit StatusCommand(bool watch) : watch_(watch) {}

  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  absl::Status Check(const FlagSet& flags) const;
  // Returns the routers to ask. `tls`: whether those without a scheme speak TLS.
  absl::StatusOr<std::vector<HttpUrl>> Routers(bool tls) const;
  // Asks all routers. Says on stderr which of them did not answer and why, and that `failed`. Null
  // if none did.
  nlohmann::ordered_json FetchAll(const std::vector<HttpUrl>& routers,
                                  const Credentials& credentials, bool& failed) const;

  std::vector<std::string> routers_;  // values of --http; empty: kDefaultRouter
  std::string api_key_file_;
  TlsFlags tls_;
  bool watch_;
  bool json_ = false;
};

}  // namespace baton
