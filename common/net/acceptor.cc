#include "common/net/acceptor.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/duration.h"

namespace baton {
namespace {

constexpr int kProbesBeforeDead = 10;
// Between two looks for closed connections, or at the memory, and before another try when nothing
// can be accepted.
constexpr absl::Duration kPause = absl::Milliseconds(100);
// What closed connections held takes a moment to be given back.
constexpr absl::Duration kRelief = absl::Seconds(1);
// While some are refused: a thread that woke for each would cost more than the refusals, and this
// much later nobody minds to be accepted.
constexpr absl::Duration kRefusingPause = absl::Milliseconds(5);
constexpr int kMostConnections = 16384;
constexpr int kAcceptedAtOnce = 64;  // before the other listeners and the probe have their turn

int64_t NowMilliseconds() { return absl::ToUnixMillis(SteadyNow()); }

int64_t SoftDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT32_MAX));
}

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

uint16_t* PortOf(sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? &reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : &reinterpret_cast<sockaddr_in&>(address).sin_port;
}

// A listening socket, or -1 with errno. It has the address in `info`, but that port.
int OpenListener(const addrinfo& info, uint16_t port, bool reuse_port) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  sockaddr_storage address{};
  std::memcpy(&address, info.ai_addr, info.ai_addrlen);
  *PortOf(address) = htons(port);
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (reuse_port) SetOption(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  if (info.ai_family == AF_INET6) {
    // [::] is every address of the machine; another one shares its name with IPv4 addresses.
    const in6_addr& host = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&host) ? 0 : 1);
  }
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), info.ai_addrlen) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

sockaddr_storage NameOf(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
  return name;
}

// The key that all connections of one peer share: an IPv4 address, or the half of an IPv6 address
// that names a network.
std::string PeerKey(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const in_addr& address = reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
    return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  const std::string key(reinterpret_cast<const char*>(&address), sizeof(address));
  return IN6_IS_ADDR_V4MAPPED(&address) ? key.substr(key.size() - sizeof(in_addr))
                                        : key.substr(0, key.size() / 2);
}

bool SameAddress(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  const size_t size = a.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return std::memcmp(&a, &b, size) == 0;
}

// 0 when the descriptor is closed.
uint64_t InodeOf(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// Without a linger the connection would stay in the kernel for a minute after its end.
void CloseForGood(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close(fd);
}

void CloseIfOpen(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int ConnectionsWithinDescriptorLimit() {
  return static_cast<int>(std::clamp<int64_t>(SoftDescriptorLimit() * 5 / 8, 8, kMostConnections));
}

Acceptor::Acceptor(const Options& options) : options_(options), rate_(options.rate) {}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(absl::string_view flag,
                                                           const std::string& address,
                                                           const Options& options) {
  BATON_RETURN_IF_ERROR(CheckListenable(flag, address, options.reuse_port));
  auto acceptor = std::unique_ptr<Acceptor>(new Acceptor(options));
  BATON_RETURN_IF_ERROR(acceptor->Open(flag, address));
  return acceptor;
}

absl::Status Acceptor::Open(absl::string_view flag, const std::string& address) {
  BATON_ASSIGN_OR_RETURN(HostPort bound, ParseHostPort(address));
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const bool known = getaddrinfo(bound.host.c_str(), nullptr, &hints, &list) == 0;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* infos) {
    if (infos != nullptr) freeaddrinfo(infos);
  });
  // A name may have several addresses, not all of which this machine needs to have.
  for (const addrinfo* info = known ? list : nullptr; info != nullptr; info = info->ai_next) {
    const int fd = OpenListener(*info, bound.port, options_.reuse_port);
    if (fd < 0) continue;
    listeners_.push_back(fd);
    sockaddr_storage name = NameOf(fd);
    bound.port = ntohs(*PortOf(name));
  }
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  reserve_ = OpenReserve();
  if (listeners_.empty() || wake_ < 0 || reserve_ < 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", flag, " ", address, ": ",
                                               strerror(errno), "; choose another address with ",
                                               flag));
  }
  address_ = bound.ToString();
  return absl::OkStatus();
}

Acceptor::~Acceptor() {
  Stop();
  CloseIfOpen(wake_);
  CloseIfOpen(reserve_);
}

void Acceptor::Start(Take take) {
  take_ = std::move(take);
  last_heard_ms_ = NowMilliseconds();
  thread_ = std::thread([this] { Loop(); });
}

void Acceptor::Stop() {
  stop_ = true;
  const uint64_t one = 1;
  const ssize_t written = write(wake_, &one, sizeof(one));
  static_cast<void>(written);
  if (thread_.joinable()) thread_.join();
  for (int& listener : listeners_) CloseIfOpen(listener);
  listeners_.clear();
  CloseIfOpen(probe_);
}

bool Acceptor::live() const {
  return NowMilliseconds() - last_heard_ms_.load() <
         absl::ToInt64Milliseconds(options_.silent_timeout);
}

void Acceptor::Loop() {
  std::vector<pollfd> polled{{.fd = wake_, .events = POLLIN, .revents = 0}};
  for (const int listener : listeners_) {
    polled.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  }
  const absl::Duration probe = options_.silent_timeout / kProbesBeforeDead;
  const absl::Duration wait = options_.memory ? std::min(kPause, probe) : probe;
  absl::Duration pause;  // zero: none
  while (!stop_) {
    Probe();
    LookAtMemory();
    // Those who wait would end each poll at once.
    const bool pausing = pause > absl::ZeroDuration();
    poll(polled.data(), pausing ? 1 : polled.size(),
         ToMilliseconds(pausing ? std::min(pause, probe) : wait));
    refused_some_ = false;
    bool stuck = false, more = false;
    for (const int listener : listeners_) {
      int accepted = 0;
      while (accepted < kAcceptedAtOnce && AcceptOne(listener)) ++accepted;
      more |= accepted == kAcceptedAtOnce;
      stuck |= accepted < kAcceptedAtOnce && errno != EAGAIN;
    }
    pause = stuck ? kPause : refused_some_ && !more ? kRefusingPause : absl::ZeroDuration();
  }
}

bool Acceptor::AcceptOne(int listener) {
  if (reserve_ < 0 && (reserve_ = OpenReserve()) < 0) return false;
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  const int fd =
      accept4(listener, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE) return CloseOne(listener);
    return errno == ECONNABORTED || errno == EINTR;
  }
  if (SameAddress(from, probe_name_)) {
    last_heard_ms_ = NowMilliseconds();
    CloseForGood(fd);
    probe_name_ = {};  // the port is free for others now
    return true;
  }
  Forget(fd);
  const std::string peer = PeerKey(from);
  if (const std::optional<Refusal> reason = WhyRefuse(peer); reason.has_value()) {
    Refuse(fd, *reason);
    return true;
  }
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options_.unacknowledged_timeout > absl::ZeroDuration()) {
    SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ToMilliseconds(options_.unacknowledged_timeout));
  }
  given_[fd] = {.inode = InodeOf(fd), .peer = peer};
  ++peers_[peer];
  take_(listener, fd);
  return true;
}

bool Acceptor::CloseOne(int listener) {
  CloseIfOpen(reserve_);
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const int error = errno;
  if (fd >= 0) Refuse(fd, Refusal::kDescriptors);
  reserve_ = OpenReserve();
  errno = error;
  return fd >= 0;
}

std::optional<Acceptor::Refusal> Acceptor::WhyRefuse(const std::string& peer) {
  if (memory_ != MemoryLevel::kEnough) return Refusal::kMemory;
  if (!HasRoomFor(peer)) ForgetClosed();
  if (!HasRoomFor(peer)) return Refusal::kRoom;
  if (!rate_.TryTake(peer, SteadyNow())) return Refusal::kRate;
  return std::nullopt;
}

void Acceptor::Refuse(int connection, Refusal reason) {
  refused_some_ = true;
  if (options_.refused) options_.refused(reason);
  CloseForGood(connection);
}

bool Acceptor::HasRoomFor(const std::string& peer) const {
  if (given_.size() >= static_cast<size_t>(options_.max_connections)) return false;
  const auto found = peers_.find(peer);
  return found == peers_.end() || found->second < options_.max_connections_of_peer;
}

void Acceptor::LookAtMemory() {
  const absl::Time now = SteadyNow();
  if (!options_.memory || now < next_memory_look_) return;
  next_memory_look_ = now + kPause;
  memory_ = options_.memory();
  if (memory_ != MemoryLevel::kFull || now < next_relief_) return;
  next_relief_ = now + kRelief;
  CloseLargestPeer();
}

// What a connection holds only its owner knows, so the number of connections stands for it.
void Acceptor::CloseLargestPeer() {
  ForgetClosed();
  const auto largest =
      std::max_element(peers_.begin(), peers_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == peers_.end()) return;
  const std::string peer = largest->first;
  LogWarning("memory is full: the {} connections of one peer are closed", largest->second);
  CloseIfOpen(reserve_);  // makes room for a copy
  for (auto it = given_.begin(); it != given_.end();) {
    const auto& [fd, given] = *it++;
    if (given.peer != peer) continue;
    // The owner may close the descriptor at any moment, but not what a copy of it names.
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0 && InodeOf(copy) == given.inode) shutdown(copy, SHUT_RDWR);
    CloseIfOpen(copy);
    Forget(fd);
  }
  reserve_ = OpenReserve();
}

void Acceptor::Forget(int connection) {
  const auto found = given_.find(connection);
  if (found == given_.end()) return;
  const auto peer = peers_.find(found->second.peer);
  if (--peer->second == 0) peers_.erase(peer);
  given_.erase(found);
}

// A flood must not make this the thread's only work.
void Acceptor::ForgetClosed() {
  const absl::Time now = SteadyNow();
  if (now < next_look_) return;
  next_look_ = now + kPause;
  std::vector<int> closed;
  for (const auto& [fd, given] : given_) {
    if (InodeOf(fd) != given.inode) closed.push_back(fd);
  }
  for (const int fd : closed) Forget(fd);
}

void Acceptor::Probe() {
  const absl::Time now = SteadyNow();
  if (now < next_probe_) return;
  next_probe_ = now + options_.silent_timeout / kProbesBeforeDead;
  CloseIfOpen(probe_);
  const sockaddr_storage self = NameOf(listeners_.front());
  probe_ = socket(self.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe_ < 0) return;
  // The listener notices whether it connects.
  (void)connect(probe_, reinterpret_cast<const sockaddr*>(&self), sizeof(self));
  probe_name_ = NameOf(probe_);
}

}  // namespace baton
