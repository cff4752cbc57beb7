#include "common/net/metrics_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/base/address.h"
#include "common/base/bounded_queue.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr int kThreads = 4;
constexpr size_t kMaxWaitingConnections = 16;
constexpr int kSocketTimeoutSeconds = 5;
constexpr size_t kMaxRequestBytes = 8 << 10;

// The queue of connections that wait for a thread. When it is full the accepting thread waits, and
// the kernel's backlog bounds further connections.
class ConnectionQueue final : public httplib::TaskQueue {
 public:
  ConnectionQueue() {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> task) override {
    // Closed: the server ends, and this connection with it.
    while (tasks_.TryPush(std::move(task)) == Pushed::kFull) {
      absl::SleepFor(absl::Milliseconds(10));
    }
  }

  void shutdown() override {
    tasks_.Close();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    while (true) {
      auto task = tasks_.Pop(absl::InfiniteDuration());
      if (!task) return;
      (*task)();
    }
  }

  BoundedQueue<std::function<void()>> tasks_{kMaxWaitingConnections};
  std::vector<std::thread> threads_;
};

}  // namespace

struct MetricsServer::Rep {
  httplib::Server server;
  std::string address;
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::function<std::string()> page) {
  BATON_RETURN_IF_ERROR(CheckListenable("--metrics-listen", address));
  BATON_ASSIGN_OR_RETURN(HostPort host_port, ParseHostPort(address));
  auto rep = std::make_unique<Rep>();
  httplib::Server& server = rep->server;
  server.new_task_queue = [] { return new ConnectionQueue; };
  // Replaces the library's options, whose SO_REUSEPORT would let two processes share a port.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server.set_read_timeout(kSocketTimeoutSeconds);
  server.set_write_timeout(kSocketTimeoutSeconds);
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(kMaxRequestBytes);
  server.Get("/metrics",
             [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
               response.set_content(page(), "text/plain; version=0.0.4; charset=utf-8");
             });
  bool bound = false;
  if (host_port.port == 0) {
    const int port = server.bind_to_any_port(host_port.host.c_str());
    bound = port > 0;
    host_port.port = static_cast<uint16_t>(bound ? port : 0);
  } else {
    bound = server.bind_to_port(host_port.host.c_str(), host_port.port);
  }
  if (!bound) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on --metrics-listen ", address, "; choose another address"));
  }
  rep->address = host_port.ToString();
  rep->thread = std::thread([&server] { server.listen_after_bind(); });
  // A stop() before the loop has begun would be lost.
  while (!server.is_running()) absl::SleepFor(absl::Milliseconds(1));
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(rep)));
}

MetricsServer::MetricsServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

MetricsServer::~MetricsServer() {
  rep_->server.stop();
  rep_->thread.join();
}

const std::string& MetricsServer::address() const { return rep_->address; }

}  // namespace baton
