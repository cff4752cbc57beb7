// Accepts the connections of a port, within bounds that hold under a flood. gRPC's own listener has
// none, and never accepts again once the process was out of descriptors.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/net/connection_rate.h"
#include "common/net/memory_watch.h"

namespace baton {

// Lets the process open as many descriptors as the system permits it.
void RaiseDescriptorLimit();
// How many connections a port may have, so that the process keeps descriptors for its other work.
int ConnectionsWithinDescriptorLimit();

// Listens from Listen on, and accepts on a thread of its own between Start and Stop. Out of
// descriptors, it closes whoever comes at once, and accepts again as soon as there are some. It
// also connects to its own port now and then, and so knows whether others can.
//
// Who is refused is closed before a byte is read. While some are, it accepts whoever came every few
// milliseconds only: a flood of them then costs little, and who connects anew at once waits too.
class Acceptor {
 public:
  // Why a connection is closed at once.
  enum class Refusal {
    kRate,         // Options::rate
    kRoom,         // Options::max_connections and max_connections_of_peer
    kMemory,       // Options::memory
    kDescriptors,  // the process has none left
  };
  struct Options {
    int max_connections = 64;          // one more is closed at once
    int max_connections_of_peer = 64;  // those of one IPv4 address or IPv6 /64 network
    // Whether this user's other sockets with SO_REUSEPORT may have the port too, as those do that
    // keep it from other users (client/serve/reserved_port.h).
    bool reuse_port = false;
    // How often such a peer may connect. Those that are refused for another reason do not count.
    ConnectionRate::Options rate{};
    // A connection whose data nobody acknowledges for so long is closed. Zero: the system decides.
    absl::Duration unacknowledged_timeout = absl::ZeroDuration();
    // The port is dead if it has not accepted its own probe for this time. It probes ten times as
    // often.
    absl::Duration silent_timeout = absl::Seconds(10);
    // Asked ten times a second. While there is not enough, who comes is closed at once; while
    // memory is full, once a second the connections of the peer with the most of them are closed.
    // Empty: there is always enough.
    std::function<MemoryLevel()> memory{};
    // Called for each refusal, on the acceptor's thread; must not block. May be empty.
    std::function<void(Refusal)> refused{};
  };
  // Takes over a connection, a socket that does not block. Called on the acceptor's thread; must
  // not block.
  using Take = std::function<void(int listener, int connection)>;

  // Listens at `address` (host:port; port 0: a free one). An error is one line that names `flag`,
  // the address and the remedy.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(absl::string_view flag,
                                                          const std::string& address,
                                                          const Options& options);
  ~Acceptor();

  // REQUIRES: called once.
  void Start(Take take);
  // Stops listening. `take` is not called any more when it returns. May be called again.
  void Stop();

  const std::string& address() const { return address_; }  // the bound host:port
  // Whether this port has accepted a connection of its own within Options::silent_timeout.
  // Thread-safe.
  bool live() const;

 private:
  // A connection that was given away. Its owner closes it without a word: then another file, or
  // none, has its descriptor.
  struct Given {
    uint64_t inode = 0;
    std::string peer;  // the key that connections of one peer share
  };

  explicit Acceptor(const Options& options);
  absl::Status Open(absl::string_view flag, const std::string& address);
  void Loop();
  // Returns false if no connection waits at that listener, or none can be accepted now.
  bool AcceptOne(int listener);
  // Out of descriptors: closes who waits, by the reserved one. False when that did not work.
  bool CloseOne(int listener);
  // Why a connection of that peer is to be closed; not given: it may stay, and is counted.
  std::optional<Refusal> WhyRefuse(const std::string& peer);
  void Refuse(int connection, Refusal reason);
  bool HasRoomFor(const std::string& peer) const;
  // Asks for the level of memory, if it is time, and does what it says.
  void LookAtMemory();
  void CloseLargestPeer();
  void Forget(int connection);
  void ForgetClosed();
  void Probe();

  const Options options_;
  std::string address_;
  std::vector<int> listeners_;
  int wake_ = -1;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> last_heard_ms_ = 0;  // when it last accepted its own probe
  std::thread thread_;

  // The thread's own.
  Take take_;
  int reserve_ = -1;  // a descriptor that is free when no other is
  int probe_ = -1;    // this end of the connection to itself
  sockaddr_storage probe_name_{};
  absl::Time next_probe_ = absl::InfinitePast();
  absl::Time next_look_ = absl::InfinitePast();  // for closed connections
  absl::Time next_memory_look_ = absl::InfinitePast();
  absl::Time next_relief_ = absl::InfinitePast();  // when connections may be closed again
  MemoryLevel memory_ = MemoryLevel::kEnough;
  ConnectionRate rate_;
  bool refused_some_ = false;         // since the last poll
  std::map<int, Given> given_;        // by descriptor
  std::map<std::string, int> peers_;  // connections of each peer
};

}  // namespace baton
