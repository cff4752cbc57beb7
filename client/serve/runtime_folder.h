// The folder of what the processes of one user share while they run.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// Makes the folder if it is missing, for this user alone. An error names the path and the remedy:
// the folder cannot be made, it is a file or a link, another user owns it, or others may use it.
// Thread-safe.
absl::Status MakeOwnFolder(const std::string& path);

// Returns the folder of this user's processes of Baton on this machine, as MakeOwnFolder accepts it:
// `baton` in $XDG_RUNTIME_DIR, or else in /run/user/UID, or else /tmp/baton-UID. The first two count
// only if they belong to this user and no other user may write there. An error is MakeOwnFolder's
// about the last one. Thread-safe unless the environment changes.
absl::StatusOr<std::string> RuntimeFolder();

}  // namespace baton
