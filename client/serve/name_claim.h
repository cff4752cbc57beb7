// A name that one process has among all processes of Baton on the machine.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace baton {

// The name is in the kernel's abstract socket namespace, bound as long as this object lives. Only
// one process can bind a name at a time, whichever user runs it and whatever files it sees, and the
// kernel frees the name when the process ends in any way. Processes in different network namespaces
// (most containers) do not see each other's names. Movable; not thread-safe.
class NameClaim {
 public:
  // nullopt: another process has the name. Where it cannot be bound for another reason (no
  // descriptor is left, a sandbox forbids it), it counts as ours, and others will not see that.
  // Never waits: it takes microseconds.
  static std::optional<NameClaim> Take(const std::string& name);

  NameClaim(NameClaim&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  NameClaim& operator=(NameClaim&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~NameClaim();

 private:
  explicit NameClaim(int socket) : socket_(socket) {}

  int socket_;
};

}  // namespace baton
