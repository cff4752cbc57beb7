#include "router/http/http_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/token_bucket.h"
#include "common/net/unread_bytes.h"
#include "router/http/connection.h"
#include "router/http/io_thread.h"
#include "router/http/tls_server.h"

namespace baton {
namespace {

// Closes the descriptor unless it is taken.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int descriptor) : descriptor_(descriptor) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OwnedDescriptor& operator=(OwnedDescriptor&&) = delete;
  ~OwnedDescriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int Take() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// As gRPC writes addresses.
std::string AddressOfPeer(int descriptor) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(address.sin_port));
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    inet_ntop(AF_INET, &address.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(address.sin6_port));
  }
  inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(address.sin6_port));
}

}  // namespace

struct HttpServer::Rep {
  explicit Rep(const Options& given) : options(given), unread_bytes(given.max_unread_bytes) {}

  // An I/O thread and its connections, which only it touches.
  struct Served {
    explicit Served(const Options& options)
        : long_input(options.long_input_bytes_per_second, /*capacity=*/0) {}

    IoThread thread;
    TokenBucket long_input;  // bytes
    absl::flat_hash_set<std::shared_ptr<Connection>> connections;
    bool draining = false;
  };

  Connection::Surroundings SurroundingsOf(Served& chosen) {
    return {
        .options = options,
        .handler = handler,
        .io = chosen.thread.io(),
        .mailbox = chosen.thread.mailbox(),
        .scratch = chosen.thread.scratch(),
        .long_input = chosen.long_input,
        .identify = [this](SSL& session,
                           const std::string& address) { return tls->Identify(session, address); },
        .closed =
            [this, &chosen](Connection& connection) {
              chosen.connections.erase(connection.shared_from_this());
              --connections;
            },
        .event_streams = event_streams,
        .unfinished_answers = unfinished_answers,
        .unread_bytes = unread_bytes,
        .draining = chosen.draining};
  }
  // Called on the acceptor's thread.
  void Take(int descriptor);
  // Called on the thread of `served`.
  void Serve(Served& served, int descriptor);

  const Options options;
  Handler handler;
  std::unique_ptr<TlsServer> tls;  // null: plain text
  std::unique_ptr<Acceptor> acceptor;
  std::atomic<size_t> connections = 0;
  std::atomic<size_t> event_streams = 0;
  std::atomic<size_t> unfinished_answers = 0;
  UnreadBytes unread_bytes;
  std::vector<std::unique_ptr<Served>> served;  // none before Start
  size_t next = 0;                              // the acceptor's
};

void HttpServer::Rep::Take(int descriptor) {
  Served& chosen = *served[next++ % served.size()];
  chosen.thread.mailbox()->Post([this, &chosen, owned = OwnedDescriptor(descriptor)]() mutable {
    Serve(chosen, owned.Take());
  });
}

void HttpServer::Rep::Serve(Served& chosen, int descriptor) {
  SslSession session = tls != nullptr ? tls->NewSession() : nullptr;
  if (tls != nullptr && session == nullptr) {
    close(descriptor);
    return;
  }
  const auto connection = std::make_shared<Connection>(descriptor, AddressOfPeer(descriptor),
                                                       std::move(session), SurroundingsOf(chosen));
  chosen.connections.insert(connection);
  ++connections;
  connection->Start();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(absl::string_view flag,
                                                               const std::string& address,
                                                               const Credentials& credentials,
                                                               bool certificate_optional,
                                                               const Options& options) {
  BATON_RETURN_IF_ERROR(credentials.CheckAddress(flag, address));
  auto rep = std::make_unique<Rep>(options);
  if (credentials.secure()) {
    BATON_ASSIGN_OR_RETURN(rep->tls, TlsServer::Create(credentials, certificate_optional));
  }
  Acceptor::Options acceptor = options.acceptor;
  // What the system has taken and cannot deliver is not taken by the client either.
  if (acceptor.unacknowledged_timeout == absl::ZeroDuration()) {
    acceptor.unacknowledged_timeout = options.stall_timeout;
  }
  BATON_ASSIGN_OR_RETURN(rep->acceptor, Acceptor::Listen(flag, address, acceptor));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(rep)));
}

HttpServer::HttpServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

HttpServer::~HttpServer() {
  Close();
  for (const auto& served : rep_->served) served->thread.Stop();
}

void HttpServer::Close() {
  rep_->acceptor->Stop();
  for (const auto& served : rep_->served) {
    absl::Notification closed;
    served->thread.mailbox()->Post([&connections = served->connections, &closed] {
      // Each takes itself out.
      while (!connections.empty()) (*connections.begin())->Close();
      closed.Notify();
    });
    closed.WaitForNotification();
  }
}

void HttpServer::Start(Handler handler) {
  BATON_CHECK(rep_->served.empty(), "Start is called once");
  rep_->handler = std::move(handler);
  for (int i = 0; i < rep_->options.threads; ++i) {
    rep_->served.push_back(std::make_unique<Rep::Served>(rep_->options));
  }
  rep_->acceptor->Start(
      [rep = rep_.get()](int /*listener*/, int descriptor) { rep->Take(descriptor); });
}

void HttpServer::Drain() {
  for (const auto& served : rep_->served) {
    served->thread.mailbox()->Post([served = served.get()] {
      served->draining = true;
      const auto connections = served->connections;
      for (const std::shared_ptr<Connection>& connection : connections) connection->Drain();
    });
  }
}

const std::string& HttpServer::address() const { return rep_->acceptor->address(); }

size_t HttpServer::connections() const { return rep_->connections; }

size_t HttpServer::event_streams() const { return rep_->event_streams; }

size_t HttpServer::unfinished_answers() const { return rep_->unfinished_answers; }

}  // namespace baton
