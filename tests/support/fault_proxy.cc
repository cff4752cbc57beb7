#include "tests/support/fault_proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"

namespace baton {
namespace {

using Flow = LinkFaults::Flow;

constexpr size_t kMaxConnections = 64;
constexpr absl::Duration kMaxWait = absl::Seconds(1);

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void CloseSocket(int fd, bool reset) {
  if (reset) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  close(fd);
}

void Prepare(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int ConnectTo(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

// A connection. Side 0 connected to us, side 1 is the target; links[s] has what side s sends.
struct FaultProxy::Connection {
  Connection(int client, int target, uint64_t seed, SharedWire* wires)
      : fds{client, target}, links{{2 * seed, wires[0]}, {2 * seed + 1, wires[1]}} {}

  // Whether the faults keep each side from hearing of the other's end.
  bool silent() const { return flows[0] != Flow::kForward || flows[1] != Flow::kForward; }
  void SetFaults(int side, const LinkFaults& faults) {
    links[side].SetFaults(faults);
    flows[side] = faults.flow;
  }
  bool lost_bytes() const {
    return links[0].swallowed_bytes() + links[1].swallowed_bytes() > 0 || broken;
  }

  int fds[2];
  FaultLink links[2];
  Flow flows[2] = {Flow::kForward, Flow::kForward};
  bool ended[2] = {false, false};    // side s has ended its direction
  bool told[2] = {false, false};     // the other side was told of that end
  bool blocked[2] = {false, false};  // bytes of side s wait for room in the other's buffer
  bool broken = false;               // an end could not be told, since the faults forbid it
};

absl::StatusOr<std::unique_ptr<FaultProxy>> FaultProxy::Start(uint16_t target_port, uint64_t seed,
                                                              uint16_t port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = Loopback(port);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, size) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, generic, &size) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on 127.0.0.1:", port, ": ", std::strerror(errno)));
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return std::unique_ptr<FaultProxy>(
      new FaultProxy(listener, wake, ntohs(address.sin_port), target_port, seed));
}

FaultProxy::FaultProxy(int listener, int wake, uint16_t port, uint16_t target_port, uint64_t seed)
    : listener_(listener),
      wake_(wake),
      port_(port),
      target_port_(target_port),
      seed_(seed),
      thread_([this] { Run(); }) {}

FaultProxy::~FaultProxy() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  absl::MutexLock lock(&mutex_);
  while (!connections_.empty()) Close(connections_.begin()->first, false);
  close(listener_);
  close(wake_);
}

void FaultProxy::SetFaults(Direction direction, const LinkFaults& faults) {
  absl::MutexLock lock(&mutex_);
  const int side = direction == Direction::kUp ? 0 : 1;
  faults_[side] = faults;
  for (const auto& [id, connection] : connections_) connection->SetFaults(side, faults);
  Wake();
}

void FaultProxy::Cut(bool reset) {
  absl::MutexLock lock(&mutex_);
  while (!connections_.empty()) Close(connections_.begin()->first, reset);
  Wake();
}

void FaultProxy::SetRefuse(bool refuse) {
  absl::MutexLock lock(&mutex_);
  refuse_ = refuse;
}

void FaultProxy::Heal() {
  absl::MutexLock lock(&mutex_);
  refuse_ = false;
  for (LinkFaults& faults : faults_) faults = {};
  std::vector<uint64_t> useless;
  for (const auto& [id, connection] : connections_) {
    if (connection->lost_bytes()) useless.push_back(id);
    for (const int side : {0, 1}) connection->SetFaults(side, {});
  }
  for (const uint64_t id : useless) Close(id, true);
  Wake();
}

FaultProxy::Stats FaultProxy::stats() const {
  absl::MutexLock lock(&mutex_);
  Stats stats = closed_;
  stats.open = connections_.size();
  for (const auto& [id, connection] : connections_) {
    const FaultLink& up = connection->links[0];
    const FaultLink& down = connection->links[1];
    stats.bytes_up += up.forwarded_bytes();
    stats.bytes_down += down.forwarded_bytes();
    stats.swallowed += up.swallowed_bytes() + down.swallowed_bytes();
    stats.flips += up.flips() + down.flips();
  }
  return stats;
}

void FaultProxy::Wake() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_, &one, sizeof(one));
  static_cast<void>(written);
}

void FaultProxy::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stop_) return;
    }
    Turn();
  }
}

void FaultProxy::Turn() {
  std::vector<pollfd> polls = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
  std::vector<std::pair<uint64_t, int>> sides = {{}, {}};  // [polls]: connection and side
  absl::Time next = SteadyNow() + kMaxWait;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, connection] : connections_) {
      for (const int side : {0, 1}) {
        const bool reads = !connection->ended[side] && connection->links[side].Room() > 0;
        const bool writes = connection->blocked[1 - side];
        const auto events = static_cast<int16_t>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
        polls.push_back({events != 0 ? connection->fds[side] : -1, events, 0});
        sides.emplace_back(id, side);
        if (!connection->blocked[side]) next = std::min(next, connection->links[side].NextDue());
      }
    }
  }
  const timespec wait = absl::ToTimespec(std::max(next - SteadyNow(), absl::ZeroDuration()));
  ppoll(polls.data(), polls.size(), &wait, nullptr);
  uint64_t wakes = 0;
  const ssize_t woken = read(wake_, &wakes, sizeof(wakes));
  static_cast<void>(woken);

  absl::MutexLock lock(&mutex_);
  for (size_t i = 2; i < polls.size(); ++i) {
    const auto& [id, side] = sides[i];
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    Connection& connection = *found->second;
    if ((polls[i].revents & ~POLLIN) != 0) connection.blocked[1 - side] = false;
    bool reset = false;
    const bool lives = ((polls[i].revents & ~POLLOUT) == 0 || Read(connection, side, &reset)) &&
                       Write(connection, side, &reset);
    if (!lives || (connection.told[0] && connection.told[1])) Close(id, reset);
  }
  if (polls[0].revents != 0) Accept();
}

void FaultProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int target =
      refuse_ || connections_.size() >= kMaxConnections ? -1 : ConnectTo(target_port_);
  if (target < 0) return CloseSocket(client, true);
  Prepare(client);
  Prepare(target);
  const uint64_t id = closed_.connections++;
  auto connection = std::make_unique<Connection>(client, target, seed_ + id, wires_);
  for (const int side : {0, 1}) connection->SetFaults(side, faults_[side]);
  connections_[id] = std::move(connection);
}

bool FaultProxy::Read(Connection& connection, int side, bool* reset) {
  char buffer[16 << 10];
  FaultLink& link = connection.links[side];
  const size_t room = std::min(link.Room(), sizeof(buffer));
  if (connection.ended[side] || room == 0) return true;
  const ssize_t got = read(connection.fds[side], buffer, room);
  if (got > 0) {
    *reset = !link.Push({buffer, static_cast<size_t>(got)}, SteadyNow());
    if (*reset) ++closed_.resets;
    return !*reset;
  }
  if (got < 0 && WouldBlock()) return true;
  connection.ended[side] = true;
  if (connection.silent()) {
    connection.broken = true;
    return !(connection.ended[0] && connection.ended[1]);
  }
  *reset = got < 0;
  link.PushEnd(SteadyNow());
  return got == 0;
}

bool FaultProxy::Write(Connection& connection, int side, bool* reset) {
  FaultLink& link = connection.links[side];
  const int to = connection.fds[1 - side];
  while (!connection.blocked[side]) {
    const absl::string_view due = link.Due(SteadyNow());
    if (due.empty()) break;
    const ssize_t written = send(to, due.data(), due.size(), MSG_NOSIGNAL);
    if (written > 0) {
      link.Consume(static_cast<size_t>(written));
    } else if (WouldBlock()) {
      connection.blocked[side] = true;
    } else if (connection.silent()) {
      connection.broken = true;
      link.Consume(due.size());  // there is nobody to write to
    } else {
      *reset = true;
      return false;
    }
  }
  if (link.EndDue(SteadyNow())) {
    shutdown(to, SHUT_WR);
    link.Consume(0);
    connection.told[side] = true;
  }
  return true;
}

void FaultProxy::Close(uint64_t id, bool reset) {
  const auto found = connections_.find(id);
  const Connection& connection = *found->second;
  closed_.bytes_up += connection.links[0].forwarded_bytes();
  closed_.bytes_down += connection.links[1].forwarded_bytes();
  for (const int side : {0, 1}) {
    closed_.swallowed += connection.links[side].swallowed_bytes();
    closed_.flips += connection.links[side].flips();
    CloseSocket(connection.fds[side], reset);
  }
  connections_.erase(found);
}

}  // namespace baton
