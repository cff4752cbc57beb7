// The API key that a program shows to a router.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/client_context.h"

#include "common/certificates/credentials.h"
#include "common/flags/flags.h"

namespace baton {

// Adds --api-key-file. No flag takes the key itself: others can read command lines.
void AddApiKeyFlag(FlagSet& flags, std::string& file);

// Immutable and thread-safe.
class ClientKey {
 public:
  // No key.
  ClientKey() = default;
  // The key in `file`, or in the variable BATON_API_KEY if `file` is empty; without both there
  // is none. INVALID_ARGUMENT when the file cannot be read or holds no single line, or when the key
  // would go to `address` in plain text beyond loopback without --insecure.
  static absl::StatusOr<ClientKey> Read(const std::string& file, absl::string_view address,
                                        const Credentials& credentials);

  // What a header `authorization` shows; empty without a key.
  std::string Authorization() const;
  // Lets the call show the key, if there is one.
  void AddTo(grpc::ClientContext& context) const;

 private:
  explicit ClientKey(std::string key) : key_(std::move(key)) {}

  std::string key_;
};

}  // namespace baton
