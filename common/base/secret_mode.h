// The modes of files that hold secrets: private keys, hashes of API keys, the fleet's secret.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// Returns what other users may do with a file of this mode that they must not: read it, or write it.
// Empty if the mode is right. It is right that the file's group may read it, as systemd and
// Kubernetes (fsGroup) give secrets to a process.
std::string SecretModeFault(mode_t mode);

// Returns the same for a file that holds the keys themselves, not their hashes. Only its owner may
// use it, so its group may not read it either.
std::string PrivateModeFault(mode_t mode);

// Returns how to give such a file the right mode, by chmod.
std::string PrivateModeRemedy(const std::string& path);

// INVALID_ARGUMENT names the file, its mode and the remedy if its PrivateModeFault is not empty. OK
// if the file cannot be found, since its reader reports that.
absl::Status CheckPrivateMode(const std::string& path);

// Returns how to give the file the right mode: by chmod, or, if it is in a volume of Kubernetes, which
// cannot be changed in the pod, by the volume's defaultMode.
std::string SecretModeRemedy(const std::string& path);

// Writes a warning of one line, which names the file, its mode and the remedy, if other users may do
// with it what they must not. `what` names the flag or the use of the file. Does nothing if the file
// cannot be found, since its reader reports that.
void WarnOfSecretMode(absl::string_view what, const std::string& path);

}  // namespace baton
