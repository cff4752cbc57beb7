// An exchange as handlers hold it: whatever they ask for is done on the connection's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/http/connection.h"
#include "router/http/exchange.h"
#include "router/http/io_thread.h"

namespace baton {

class ServedExchange final : public HttpExchange {
 public:
  ServedExchange(std::shared_ptr<Connection> connection, std::shared_ptr<IoMailbox> mailbox,
                 uint64_t id, HttpRequest request)
      : connection_(std::move(connection)),
        mailbox_(std::move(mailbox)),
        id_(id),
        request_(std::move(request)) {}
  ~ServedExchange() override {
    if (ended_) return;
    mailbox_->Post([connection = std::move(connection_), id = id_, request = std::move(request_)] {
      connection->Abandon(id, request);
    });
  }

  const HttpRequest& request() const override { return request_; }

  void Post(std::function<void()> task) override { mailbox_->Post(std::move(task)); }
  void OnGone(std::function<void()> gone) override {
    mailbox_->Post([connection = connection_, id = id_, gone = std::move(gone)]() mutable {
      connection->OnGone(id, std::move(gone));
    });
  }
  bool gone() const override { return connection_->closed(); }
  void CountFor(const std::string& tenant) override {
    if (mailbox_->IsHere()) return connection_->CountFor(id_, tenant);
    mailbox_->Post(
        [connection = connection_, id = id_, tenant] { connection->CountFor(id, tenant); });
  }
  void Respond(HttpResponse response) override {
    ended_ = true;
    mailbox_->Post([connection = connection_, id = id_, response = std::move(response)]() mutable {
      connection->Respond(id, std::move(response));
    });
  }
  // What a stream asks for on the connection's thread, where answers are written, is done at once.
  void BeginEvents(std::vector<HttpHeader> headers) override {
    if (mailbox_->IsHere()) return connection_->BeginEvents(id_, headers);
    mailbox_->Post([connection = connection_, id = id_, headers = std::move(headers)] {
      connection->BeginEvents(id, headers);
    });
  }
  void Send(std::string bytes, std::function<void(bool ok)> written) override {
    if (mailbox_->IsHere()) return connection_->Send(id_, std::move(bytes), std::move(written));
    mailbox_->Post([connection = connection_, id = id_, bytes = std::move(bytes),
                    written = std::move(written)]() mutable {
      connection->Send(id, std::move(bytes), std::move(written));
    });
  }
  void SendLong(absl::Cord bytes, std::function<void(bool ok)> written) override {
    if (mailbox_->IsHere()) return connection_->SendLong(id_, std::move(bytes), std::move(written));
    mailbox_->Post([connection = connection_, id = id_, bytes = std::move(bytes),
                    written = std::move(written)]() mutable {
      connection->SendLong(id, std::move(bytes), std::move(written));
    });
  }
  void EndEvents() override {
    ended_ = true;
    if (mailbox_->IsHere()) return connection_->EndEvents(id_);
    mailbox_->Post([connection = connection_, id = id_] { connection->EndEvents(id); });
  }
  void Break() override {
    ended_ = true;
    if (mailbox_->IsHere()) return connection_->Break(id_);
    mailbox_->Post([connection = connection_, id = id_] { connection->Break(id); });
  }

 private:
  std::shared_ptr<Connection> connection_;
  const std::shared_ptr<IoMailbox> mailbox_;
  const uint64_t id_;
  HttpRequest request_;
  std::atomic<bool> ended_ = false;  // the connection knows how the answer ends
};

}  // namespace baton
