#include "common/net/metrics_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/net/acceptor.h"
#include "common/net/http_host.h"
#include "common/rpc/duration.h"

namespace baton {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr size_t kMaxRequestBytes = 8 << 10;
constexpr absl::string_view kEndOfHeaders = "\r\n\r\n";

// The values of the headers Host of a request.
std::vector<absl::string_view> HostsOf(absl::string_view request) {
  std::vector<absl::string_view> hosts;
  for (absl::string_view line : absl::StrSplit(request, "\r\n")) {
    if (line.empty()) break;
    const size_t colon = std::min(line.find(':'), line.size());
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(line.substr(0, colon)), "host")) {
      continue;
    }
    hosts.push_back(absl::StripAsciiWhitespace(line.substr(std::min(colon + 1, line.size()))));
  }
  return hosts;
}

// Whether no page of a browser can have made the request. A page's server can make its own name
// mean this machine, so that the page reads what is there; an address keeps its meaning.
bool NamesAnAddress(absl::string_view request) {
  const std::vector<absl::string_view> hosts = HostsOf(request);
  return hosts.empty() ||  // HTTP/1.0, which no browser speaks
         (hosts.size() == 1 && IsHttpHost(hosts[0]) &&
          (IsNumericHost(hosts[0]) || absl::EqualsIgnoreCase(WithoutPort(hosts[0]), "localhost")));
}

std::string Answer(absl::string_view status, absl::string_view text) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", kMetricsContentType,
                      "\r\nContent-Length: ", text.size(), "\r\nConnection: close\r\n\r\n", text);
}

// One request and its answer. Owns its socket, which does not block.
class Exchange {
 public:
  Exchange(int fd, absl::Time deadline) : fd_(fd), deadline_(deadline) {}
  ~Exchange() { close(fd_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int fd() const { return fd_; }
  absl::Time deadline() const { return deadline_; }
  bool has_request() const {
    return absl::StrContains(request_, kEndOfHeaders) || request_.size() > kMaxRequestBytes;
  }
  const std::string& request() const { return request_; }
  // What to wait for at the socket.
  short events() const { return sent_ < answer_.size() ? POLLOUT : POLLIN; }

  void SetAnswer(std::string answer, absl::Time deadline) {
    answer_ = std::move(answer);
    deadline_ = deadline;
  }
  // Reads or writes what can be without waiting. False when the exchange is over.
  bool Go() { return answer_.empty() || sent_ == answer_.size() ? Read() : Write(); }

 private:
  // Once answered, what else comes is thrown away: a socket that is closed on unread data would
  // take the answer back.
  bool Read() {
    char buffer[kMaxRequestBytes];
    const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (answer_.empty()) request_.append(buffer, static_cast<size_t>(n));
    return true;
  }
  bool Write() {
    const ssize_t n = send(fd_, answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<size_t>(n);
    if (sent_ == answer_.size()) shutdown(fd_, SHUT_WR);
    return true;
  }

  const int fd_;
  absl::Time deadline_;
  std::string request_;
  std::string answer_;
  size_t sent_ = 0;
};

}  // namespace

// The thread and its connections.
struct MetricsServer::Rep {
  Rep(std::function<std::string()> page_function, absl::Duration exchange_timeout)
      : page(std::move(page_function)), timeout(exchange_timeout) {}
  ~Rep() {
    acceptor->Stop();
    {
      absl::MutexLock lock(&mutex);
      stop = true;
    }
    Wake();
    if (thread.joinable()) thread.join();
    for (const int fd : arrived) close(fd);
    close(wake);
  }

  void Wake() const {
    const uint64_t one = 1;
    const ssize_t written = write(wake, &one, sizeof(one));
    static_cast<void>(written);
  }
  void Arrive(int fd) {
    {
      absl::MutexLock lock(&mutex);
      arrived.push_back(fd);
    }
    Wake();
  }
  // False when the server ends.
  bool TakeArrived();
  void Loop();
  std::string AnswerTo(const std::string& request) const;

  const std::function<std::string()> page;
  const absl::Duration timeout;
  std::unique_ptr<Acceptor> acceptor;
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  absl::Mutex mutex;
  std::vector<int> arrived ABSL_GUARDED_BY(mutex);  // bounded by the acceptor
  bool stop ABSL_GUARDED_BY(mutex) = false;
  std::list<Exchange> exchanges;  // the thread's own, the oldest first
  std::thread thread;
};

bool MetricsServer::Rep::TakeArrived() {
  absl::MutexLock lock(&mutex);
  for (const int fd : arrived) {
    if (exchanges.size() == kMaxConnections) exchanges.pop_front();
    exchanges.emplace_back(fd, SteadyNow() + timeout);
  }
  arrived.clear();
  return !stop;
}

std::string MetricsServer::Rep::AnswerTo(const std::string& request) const {
  if (request.size() > kMaxRequestBytes) {
    return Answer("431 Request Header Fields Too Large", "the request is longer than 8 KiB\n");
  }
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(request), absl::MaxSplits(absl::ByAnyChar(" ?\r"), 2));
  if (words.size() < 3 || words[0] != "GET" || words[1] != "/metrics") {
    return Answer("404 Not Found", "only GET /metrics is served here\n");
  }
  if (IsLoopback(acceptor->address()) && !NamesAnAddress(request)) {
    return Answer("403 Forbidden",
                  "Host must be localhost or an address; --metrics-listen beyond loopback answers "
                  "other names too\n");
  }
  return Answer("200 OK", page());
}

void MetricsServer::Rep::Loop() {
  std::vector<pollfd> polled;
  while (TakeArrived()) {
    absl::Time next = absl::InfiniteFuture();
    polled.assign(1, {.fd = wake, .events = POLLIN, .revents = 0});
    for (const Exchange& exchange : exchanges) {
      polled.push_back({.fd = exchange.fd(), .events = exchange.events(), .revents = 0});
      next = std::min(next, exchange.deadline());
    }
    const absl::Duration wait = std::clamp(next - SteadyNow(), absl::ZeroDuration(), timeout);
    poll(polled.data(), polled.size(), exchanges.empty() ? -1 : ToMilliseconds(wait) + 1);
    uint64_t woken = 0;
    const ssize_t read_bytes = read(wake, &woken, sizeof(woken));
    static_cast<void>(read_bytes);
    const absl::Time now = SteadyNow();
    auto ready = polled.begin() + 1;
    for (auto it = exchanges.begin(); it != exchanges.end(); ++ready) {
      Exchange& exchange = *it;
      const bool asked = exchange.has_request();
      const bool goes_on = now < exchange.deadline() && (ready->revents == 0 || exchange.Go());
      if (goes_on && !asked && exchange.has_request()) {
        exchange.SetAnswer(AnswerTo(exchange.request()), SteadyNow() + timeout);
      }
      it = goes_on ? std::next(it) : exchanges.erase(it);
    }
  }
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::function<std::string()> page, absl::Duration timeout,
    bool reuse_port) {
  // More than are served, so that who comes replaces the oldest.
  constexpr int kAccepted = 2 * kMaxConnections;
  BATON_ASSIGN_OR_RETURN(auto acceptor, Acceptor::Listen("--metrics-listen", address,
                                                         {.max_connections = kAccepted,
                                                          .max_connections_of_peer = kAccepted,
                                                          .reuse_port = reuse_port}));
  auto rep = std::make_unique<Rep>(std::move(page), timeout);
  rep->acceptor = std::move(acceptor);
  if (rep->wake < 0)
    return absl::ResourceExhaustedError("no file descriptor left; raise ulimit -n");
  rep->acceptor->Start([rep = rep.get()](int /*listener*/, int fd) { rep->Arrive(fd); });
  rep->thread = std::thread([rep = rep.get()] { rep->Loop(); });
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(rep)));
}

MetricsServer::MetricsServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

MetricsServer::~MetricsServer() = default;

const std::string& MetricsServer::address() const { return rep_->acceptor->address(); }

}  // namespace baton
