// A TCP proxy on loopback with the faults of networks: it delays, slows, swallows and damages
// bytes, and ends connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "tests/support/fault_link.h"

namespace baton {

// Thread-safe. A thread of its own moves the bytes of at most 64 connections at a time.
class FaultProxy {
 public:
  enum class Direction { kUp, kDown };  // up: from the connecting side to the target
  struct Stats {
    uint64_t connections = 0;  // connections since the start
    uint64_t open = 0;         // connections that are open
    uint64_t bytes_up = 0;     // bytes forwarded
    uint64_t bytes_down = 0;   // bytes forwarded
    uint64_t swallowed = 0;    // bytes swallowed
    uint64_t flips = 0;        // bits damaged
    uint64_t resets = 0;       // connections reset by resets_per_mib
  };

  // Listens on 127.0.0.1:port (0: any) and forwards to 127.0.0.1:target_port, which need not listen
  // yet. The damage done to the n-th connection follows from `seed` and n.
  static absl::StatusOr<std::unique_ptr<FaultProxy>> Start(uint16_t target_port, uint64_t seed,
                                                           uint16_t port = 0);
  ~FaultProxy();  // closes everything

  uint16_t port() const { return port_; }
  // Sets the faults of all connections, those that are open and later ones.
  void SetFaults(Direction direction, const LinkFaults& faults);
  // Closes both directions of all open connections, as a peer that ends does, or with `reset` as
  // one that crashes (RST).
  void Cut(bool reset);
  // Whether new connections are reset at once.
  void SetRefuse(bool refuse);
  // Removes all faults. Resets connections that lost bytes, since nobody could understand the rest.
  void Heal();
  Stats stats() const;

 private:
  struct Connection;
  FaultProxy(int listener, int wake, uint16_t port, uint16_t target_port, uint64_t seed);

  void Run();
  // Waits until something can be done, then does it.
  void Turn();
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads from `side`, or writes what is due to it. Returns false if the connection is over.
  bool Read(Connection& connection, int side, bool* reset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Write(Connection& connection, int side, bool* reset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(uint64_t id, bool reset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const int listener_;
  const int wake_;  // an eventfd
  const uint16_t port_;
  const uint16_t target_port_;
  const uint64_t seed_;

  mutable absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
  LinkFaults faults_[2] ABSL_GUARDED_BY(mutex_);  // [Direction]
  SharedWire wires_[2] ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  Stats closed_ ABSL_GUARDED_BY(mutex_);  // sums over connections that are over; `open` is unused
  std::thread thread_;                    // the last member, since it uses the others
};

}  // namespace baton
