#include "router/front/front_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/net/access_check.h"
#include "router/front/client_identity.h"

namespace baton {
namespace {

constexpr int kPauseMs = 100;  // before another try when no connection can be accepted

absl::Status CannotListen(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--front-socket ", path, ": ", why, "; choose another path"));
}

// The front itself is never the caller: it passes on the calls of its clients.
absl::StatusOr<Peer> WhoCallsThroughFront(const grpc::AuthContext& connection,
                                          const CallHeaders& headers) {
  BATON_ASSIGN_OR_RETURN(std::optional<Peer> client, ClientBehindFront(connection, headers));
  return std::move(client).value_or(Peer());
}

// Whether a process listens at the address.
bool Answers(const sockaddr_un& address) {
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool answers =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(probe);
  return answers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontSocket>> FrontSocket::Listen(const Options& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.path.empty() || options.path.size() >= sizeof(address.sun_path)) {
    return CannotListen(
        options.path,
        absl::StrCat("a path of at most ", sizeof(address.sun_path) - 1, " bytes is needed"));
  }
  std::memcpy(address.sun_path, options.path.data(), options.path.size());
  struct stat found {};
  if (lstat(options.path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return CannotListen(options.path, "is there and no socket");
    if (Answers(address)) return CannotListen(options.path, "another process listens there");
    unlink(options.path.c_str());
  }
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int wake = eventfd(0, EFD_CLOEXEC);
  // Every user may connect, but only connections of the front's user are kept.
  if (listener < 0 || wake < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(options.path.c_str(), 0666) != 0 || listen(listener, SOMAXCONN) != 0) {
    const absl::Status status = CannotListen(options.path, std::strerror(errno));
    close(listener);
    close(wake);
    return status;
  }
  return std::unique_ptr<FrontSocket>(new FrontSocket(options, listener, wake));
}

FrontSocket::FrontSocket(const Options& options, int listener, int wake)
    : options_(options), listener_(listener), wake_(wake) {}

FrontSocket::~FrontSocket() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_, &one, sizeof(one));
  static_cast<void>(written);
  if (thread_.joinable()) thread_.join();
  unlink(options_.path.c_str());
  close(listener_);
  close(wake_);
}

void FrontSocket::AddTo(grpc::ServerBuilder& builder, Metrics& metrics,
                        std::shared_ptr<const PeerTrust> trust) {
  const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
  // The connection shows no certificate; the front looks up those of its clients in the lists.
  credentials->SetAuthMetadataProcessor(std::make_shared<AccessCheck>(
      metrics, std::move(trust), WhoCallsThroughFront, AddressBehindFront));
  door_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
}

void FrontSocket::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void FrontSocket::Loop() {
  pollfd polled[] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                     {.fd = listener_, .events = POLLIN, .revents = 0}};
  while (true) {
    poll(polled, 2, -1);
    if (polled[0].revents != 0) return;
    if (polled[1].revents != 0) AcceptOne();
  }
}

void FrontSocket::AcceptOne() {
  const int connection = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (connection < 0) {
    // Out of descriptors, who waits would end each poll at once.
    pollfd wake{.fd = wake_, .events = POLLIN, .revents = 0};
    if (errno != EAGAIN) poll(&wake, 1, kPauseMs);
    return;
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != options_.user) {
    audit_log_.Refused({.method = "connection",
                        .peer = absl::StrCat("user ", peer.uid),
                        .address = absl::StrCat("unix:", options_.path),
                        .reason = absl::StrCat("--front-uid is ", options_.user)},
                       SteadyNow());
    close(connection);
    return;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener_;
  parameters.fd = connection;
  door_->HandleNewConnection(&parameters);
}

}  // namespace baton
