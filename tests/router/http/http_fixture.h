// A server of HTTP on loopback, a handler that the test plays, and clients of it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/address.h"
#include "router/http/http_server.h"
#include "tests/router/http/http_test_client.h"

namespace baton {

inline constexpr absl::Duration kPatience = absl::Seconds(20);  // then a test fails

// Whether `condition` became true in time.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time until = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// A descriptor that is connected. Its reads give up after kPatience.
inline int ConnectTo(const std::string& address, int receive_buffer = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = absl::ToInt64Seconds(kPatience), .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (receive_buffer > 0) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  const HostPort host_port = *ParseHostPort(address);
  to.sin_port = htons(host_port.port);
  inet_pton(AF_INET, host_port.host.c_str(), &to.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// A connection in plain text.
class HttpSocket {
 public:
  // `receive_buffer`: bytes that the system may hold for it; 0: as it likes.
  explicit HttpSocket(const std::string& address, int receive_buffer = 0)
      : fd_(ConnectTo(address, receive_buffer)), client_([this] { return Read(); }) {}
  ~HttpSocket() { Close(); }
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  bool Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  bool SendUrgent(char byte) { return send(fd_, &byte, 1, MSG_NOSIGNAL | MSG_OOB) == 1; }
  void HalfClose() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    Close();
  }
  HttpTestClient& client() { return client_; }
  HttpTestClient* operator->() { return &client_; }
  // Whether the last read found a reset instead of an end.
  bool was_reset() const { return was_reset_; }

 private:
  std::string Read() {
    char buffer[4096];
    const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
    was_reset_ = n < 0 && errno == ECONNRESET;
    EXPECT_FALSE(n < 0 && errno == EAGAIN) << "nothing came, and no end";
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
  }

  int fd_;
  bool was_reset_ = false;
  HttpTestClient client_;
};

class HttpFixture : public testing::Test {
 protected:
  using Options = HttpServer::Options;

  void TearDown() override {
    // What the handler holds may name what the test has on its stack.
    server_.reset();
    body_.Drop();
    absl::MutexLock lock(&mutex_);
    exchanges_.clear();
  }

  void Start(const Options& options = {}) {
    auto server =
        HttpServer::Listen("--http-listen", "127.0.0.1:0", Credentials::Loopback(), false, options);
    ASSERT_TRUE(server.ok()) << server.status();
    Start(*std::move(server));
  }
  void Start(std::unique_ptr<HttpServer> server) {
    server_ = std::move(server);
    server_->Start(
        {.check = [this](const HttpRequest& head) { return Check(head); },
         .room = room_,
         .handle = [this](auto exchange,
                          HttpBody body) { Handle(std::move(exchange), std::move(body)); },
         .error_answer =
             [](const HttpRequest& request, int status, const std::string& message) {
               return JsonResponse(status, absl::StrCat(request.path, "|", status, "|", message));
             },
         .answered =
             [this](const std::string& path, int status, std::optional<absl::Duration> since_head) {
               absl::MutexLock lock(&mutex_);
               answered_.push_back(
                   absl::StrCat(path, " ", status, since_head.has_value() ? " timed" : ""));
             }});
  }

  // The next exchange that is handled; body_ is its body.
  std::shared_ptr<HttpExchange> Next() {
    absl::MutexLock lock(&mutex_);
    const auto arrived = [this]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !exchanges_.empty(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&arrived), kPatience)) {
      ADD_FAILURE() << "no request came";
      return nullptr;
    }
    auto [exchange, body] = std::move(exchanges_.front());
    exchanges_.pop_front();
    body_ = std::move(body);
    return exchange;
  }
  // Answers at once from now on, with what the request was.
  void AnswerAtOnce() {
    absl::MutexLock lock(&mutex_);
    at_once_ = true;
  }
  size_t handled() {
    absl::MutexLock lock(&mutex_);
    return handled_;
  }
  // What was told of the answers so far.
  std::vector<std::string> answered() {
    absl::MutexLock lock(&mutex_);
    return answered_;
  }
  // What `check` answers; null: nothing.
  void SetCheck(std::function<std::optional<HttpResponse>(const HttpRequest&)> check) {
    absl::MutexLock lock(&mutex_);
    check_ = std::move(check);
  }

  // What makes room for a request's body; null: bodies are not counted. REQUIRES: before Start.
  void SetRoom(std::function<std::optional<BodyRoom>(const HttpRequest&)> room) {
    room_ = std::move(room);
  }

  static std::string Description(const HttpRequest& request, const HttpBody& body) {
    return absl::StrCat(request.method, " ", request.path, " ", request.query, " ", body.bytes);
  }

  std::unique_ptr<HttpServer> server_;
  HttpBody body_;  // body of the last exchange that Next has returned

 private:
  std::optional<HttpResponse> Check(const HttpRequest& head) {
    absl::MutexLock lock(&mutex_);
    return check_ ? check_(head) : std::nullopt;
  }
  void Handle(std::shared_ptr<HttpExchange> exchange, HttpBody body) {
    absl::MutexLock lock(&mutex_);
    ++handled_;
    if (at_once_) {
      exchange->Respond(
          {.status = 200, .headers = {}, .body = Description(exchange->request(), body)});
    } else {
      exchanges_.emplace_back(std::move(exchange), std::move(body));
    }
  }

  absl::Mutex mutex_;
  bool at_once_ ABSL_GUARDED_BY(mutex_) = false;
  size_t handled_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> answered_ ABSL_GUARDED_BY(mutex_);
  std::function<std::optional<HttpResponse>(const HttpRequest&)> check_ ABSL_GUARDED_BY(mutex_);
  std::function<std::optional<BodyRoom>(const HttpRequest&)> room_;
  std::deque<std::pair<std::shared_ptr<HttpExchange>, HttpBody>> exchanges_ ABSL_GUARDED_BY(mutex_);
};

// A value that another thread tells, once.
template <typename Value>
class Told {
 public:
  void Tell(Value value) {
    absl::MutexLock lock(&mutex_);
    value_ = std::move(value);
  }
  // nullopt: nothing was told in time.
  std::optional<Value> Wait(absl::Duration timeout = kPatience) {
    absl::MutexLock lock(&mutex_);
    const auto is_told = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return value_.has_value(); };
    mutex_.AwaitWithTimeout(absl::Condition(&is_told), timeout);
    return value_;
  }

 private:
  absl::Mutex mutex_;
  std::optional<Value> value_ ABSL_GUARDED_BY(mutex_);
};

// Learns of something on another thread, once.
class Learned {
 public:
  std::function<void()> Teller() {
    return [told = told_] { told->Tell(true); };
  }
  bool Wait() const { return told_->Wait().has_value(); }
  bool told() const { return told_->Wait(absl::ZeroDuration()).has_value(); }

 private:
  const std::shared_ptr<Told<bool>> told_ = std::make_shared<Told<bool>>();
};

// Whether the system took an event's bytes.
class Taken {
 public:
  std::function<void(bool)> Teller() {
    return [told = told_](bool ok) { told->Tell(ok); };
  }
  // nullopt: nothing was told.
  std::optional<bool> Wait() const { return told_->Wait(); }

 private:
  const std::shared_ptr<Told<bool>> told_ = std::make_shared<Told<bool>>();
};

inline constexpr char kGet[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

}  // namespace baton
