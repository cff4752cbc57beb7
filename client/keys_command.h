// `baton keys` makes, lists and revokes the API keys in the file of a router's --api-keys, which
// reads each change within two seconds.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"

#include "common/flags/command.h"
#include "router/tenants/keys_file.h"

namespace baton {

// Exit codes of all three: 0, or 2 with one line on stderr.

// `baton keys new` prints a new key, which is never shown again, and adds its hash to the file.
// With --key-from it takes the user's key instead and prints the key's id. The file is made if
// there is none. Limits that are given become those of the tenant.
class KeysNewCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  absl::Status SetLimits(const FlagSet& flags, Tenant& tenant) const;
  // Adds the key to the file. REQUIRES: IsStrongApiKey(key).
  absl::Status Add(const FlagSet& flags, const std::string& key) const;

  std::string file_;
  std::string tenant_;
  std::string key_from_;
  double requests_per_second_ = 0;
  int tokens_per_minute_ = 0;
  int streams_ = 0;
  int min_priority_ = Tenant().min_priority;
  int max_priority_ = Tenant().max_priority;
  std::string share_;
  bool operates_ = false;
};

// `baton keys list` prints ids, tenants and limits.
class KeysListCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  std::string file_;
};

// `baton keys revoke ID` marks a key as revoked.
class KeysRevokeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  std::string file_;
  std::optional<std::string> id_;
};

}  // namespace baton
