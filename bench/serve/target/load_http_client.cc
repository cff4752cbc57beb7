#include "bench/serve/target/load_http_client.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "boost/asio/connect.hpp"
#include "boost/asio/ip/address.hpp"
#include "boost/asio/ssl/host_name_verification.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/certificates/pem.h"

namespace baton {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr int kMostAtOnce = 64;  // events before the caller may send what is due

std::chrono::steady_clock::time_point SteadyPoint(absl::Time at) {
  return std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(at - absl::UnixEpoch()));
}

// The settings of TLS, by the files that `credentials` have checked.
absl::StatusOr<std::unique_ptr<asio::ssl::context>> TlsContext(const Credentials& credentials) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  Error error;
  if (!credentials.secure()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(credentials.caller_authorities().ca_file, error);
    const std::string identity = credentials.identity_path();
    if (!error && !identity.empty()) context->use_certificate_chain_file(identity, error);
    if (!error && !identity.empty()) {
      context->use_private_key_file(identity, asio::ssl::context::pem, error);
    }
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-ca, --tls-cert or --tls-key: OpenSSL rejects them: ", error.message(),
                     "; issue them anew"));
  }
  context->set_verify_mode(asio::ssl::verify_peer, error);
  return context;
}

}  // namespace

class LoadHttpClient::Connection {
 public:
  Connection(asio::io_context& io, asio::ssl::context* tls) : socket_(io) {
    if (tls != nullptr) secure_.emplace(socket_, *tls);
  }

  tcp::socket& socket() { return socket_; }
  asio::ssl::stream<tcp::socket&>* secure() { return secure_ ? &*secure_ : nullptr; }
  // Calls `use` with the stream that requests and answers go over.
  template <typename Use>
  void With(const Use& use) {
    secure_ ? use(*secure_) : use(socket_);
  }

  bool used = false;                // has served a request before
  boost::beast::flat_buffer input;  // what was read and not parsed yet

 private:
  tcp::socket socket_;
  std::optional<asio::ssl::stream<tcp::socket&>> secure_;
};

// One request. Its handlers hold it, so that it lives until the last of them has run.
class LoadHttpClient::Call : public std::enable_shared_from_this<Call> {
 public:
  Call(LoadHttpClient& client, uint64_t number, OnBody on_body, OnEnd on_end)
      : client_(client),
        number_(number),
        on_body_(std::move(on_body)),
        on_end_(std::move(on_end)),
        deadline_(client.io_) {}

  void Start(const LoadHttpRequest& request, absl::Duration timeout) {
    request_.method_string(request.method);
    request_.target(request.path);
    request_.version(11);
    request_.set(http::field::host, client_.url_.Authority());
    request_.set(http::field::user_agent, "baton-bench");
    if (!request.authorization.empty()) {
      request_.set(http::field::authorization, request.authorization);
    }
    if (request.method == "POST") request_.set(http::field::content_type, "application/json");
    request_.body() = request.body;
    request_.prepare_payload();
    deadline_.expires_at(SteadyPoint(SteadyNow() + timeout));
    deadline_.async_wait([self = shared_from_this()](const Error& error) {
      if (error) return;
      self->result_.timed_out = true;
      self->Close();
    });
    Connect();
  }

  void Cancel() {
    result_.cancelled = true;
    Close();
  }

 private:
  void Close() {
    Error ignored;
    if (connection_ != nullptr) connection_->socket().close(ignored);
  }

  void Connect() {
    if (!client_.idle_.empty() && !retried_) {
      connection_ = std::move(client_.idle_.back());
      client_.idle_.pop_back();
      return Write();
    }
    connection_ = client_.NewConnection();
    asio::async_connect(connection_->socket(), client_.endpoints_,
                        [self = shared_from_this()](const Error& error, const tcp::endpoint&) {
                          if (error || self->stopped()) return self->Fail("connect", error);
                          Error ignored;
                          self->connection_->socket().set_option(tcp::no_delay(true), ignored);
                          self->Handshake();
                        });
  }

  void Handshake() {
    auto* const secure = connection_->secure();
    if (secure == nullptr) return Write();
    Error is_no_address;
    asio::ip::make_address(client_.name_, is_no_address);
    if (is_no_address) {  // only names are sent to servers (RFC 6066)
      SSL_set_tlsext_host_name(secure->native_handle(), client_.name_.c_str());
    }
    secure->set_verify_callback(asio::ssl::host_name_verification(client_.name_));
    secure->async_handshake(asio::ssl::stream_base::client,
                            [self = shared_from_this()](const Error& error) {
                              if (error || self->stopped()) return self->Fail("TLS", error);
                              const absl::Status trusted = self->CheckTrust();
                              if (!trusted.ok()) return self->End(std::string(trusted.message()));
                              self->Write();
                            });
  }

  // Whether the server's certificate was revoked.
  absl::Status CheckTrust() {
    if (!client_.credentials_.secure()) return absl::OkStatus();
    const Certificate certificate(
        SSL_get1_peer_certificate(connection_->secure()->native_handle()));
    return client_.credentials_.trust()->Check(ToPem(*certificate));
  }

  void Write() {
    connection_->With([&](auto& stream) {
      http::async_write(stream, request_, [self = shared_from_this()](const Error& error, size_t) {
        if (error || self->stopped()) return self->Fail("send", error);
        self->ReadHead();
      });
    });
  }

  void ReadHead() {
    parser_.emplace();
    parser_->body_limit(boost::none);
    connection_->With([&](auto& stream) {
      http::async_read_header(stream, connection_->input, *parser_,
                              [self = shared_from_this()](const Error& error, size_t) {
                                if (error || self->stopped()) return self->Fail("answer", error);
                                self->result_.status = self->parser_->get().result_int();
                                self->ReadBody();
                              });
    });
  }

  void ReadBody() {
    if (parser_->is_done()) return Done();
    connection_->With([&](auto& stream) {
      http::async_read_some(stream, connection_->input, *parser_,
                            [self = shared_from_this()](const Error& error, size_t) {
                              self->TakeBody();
                              if (error || self->stopped()) return self->Fail("answer", error);
                              self->ReadBody();
                            });
    });
  }

  void TakeBody() {
    std::string& body = parser_->get().body();
    if (!body.empty()) on_body_(result_.status, body);
    body.clear();
  }

  void Done() {
    TakeBody();
    if (parser_->get().keep_alive() && !stopped()) {
      connection_->used = true;
      client_.idle_.push_back(std::move(connection_));
    }
    End("");
  }

  bool stopped() const { return result_.timed_out || result_.cancelled; }

  void Fail(const char* what, const Error& error) {
    // A server may close an idle connection at any time, also when a request is on its way.
    if (connection_->used && result_.status == 0 && !stopped() && !retried_) {
      retried_ = true;
      return Connect();
    }
    End(absl::StrCat(what, ": ", error.message()));
  }

  void End(std::string error) {
    if (result_.timed_out) error = "the deadline has passed";
    if (result_.cancelled) error = "cancelled";
    result_.error = std::move(error);
    deadline_.cancel();
    Close();
    const std::shared_ptr<Call> self = shared_from_this();
    client_.calls_.erase(number_);
    on_end_(result_);
  }

  LoadHttpClient& client_;
  const uint64_t number_;
  const OnBody on_body_;
  const OnEnd on_end_;
  asio::steady_timer deadline_;
  std::unique_ptr<Connection> connection_;
  http::request<http::string_body> request_;
  std::optional<http::response_parser<http::string_body>> parser_;
  LoadHttpResult result_;
  bool retried_ = false;
};

LoadHttpClient::LoadHttpClient(const HttpUrl& url, const Credentials& credentials)
    : url_(url), credentials_(credentials), name_(url.host) {}

absl::StatusOr<std::unique_ptr<LoadHttpClient>> LoadHttpClient::Create(
    const HttpUrl& url, const TlsFlags& tls, const Credentials& credentials) {
  std::unique_ptr<LoadHttpClient> client(new LoadHttpClient(url, credentials));
  if (url.tls) {
    BATON_ASSIGN_OR_RETURN(client->tls_, TlsContext(credentials));
    if (!tls.server_name.empty()) client->name_ = tls.server_name;
  } else if (credentials.secure()) {
    return absl::InvalidArgumentError(
        "--http http://... is plain text, which contradicts --tls-ca; write https://");
  } else {
    BATON_RETURN_IF_ERROR(credentials.CheckAddress("connection to", url.Authority()));
  }
  Error error;
  tcp::resolver resolver(client->io_);
  client->endpoints_ = resolver.resolve(url.host, std::to_string(url.port), error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("--http: host ", url.host, ": ", error.message()));
  }
  return client;
}

LoadHttpClient::~LoadHttpClient() {
  for (const auto& [number, call] : std::exchange(calls_, {})) call->Cancel();
  idle_.clear();
}

std::unique_ptr<LoadHttpClient::Connection> LoadHttpClient::NewConnection() {
  return std::make_unique<Connection>(io_, tls_.get());
}

uint64_t LoadHttpClient::Start(const LoadHttpRequest& request, absl::Duration timeout,
                               OnBody on_body, OnEnd on_end) {
  const uint64_t number = next_call_++;
  auto call = std::make_shared<Call>(*this, number, std::move(on_body), std::move(on_end));
  calls_[number] = call;
  call->Start(request, timeout);
  return number;
}

void LoadHttpClient::Cancel(uint64_t call) {
  if (const auto found = calls_.find(call); found != calls_.end()) found->second->Cancel();
}

void LoadHttpClient::Poll(absl::Time until) {
  io_.restart();
  const auto work = asio::make_work_guard(io_);
  // Asio waits in whole milliseconds, and so might wake up one too late.
  asio::steady_timer alarm(io_, SteadyPoint(until));
  alarm.async_wait([](const Error&) {});
  io_.run_one();
  alarm.cancel();
  for (int i = 0; i < kMostAtOnce && io_.poll_one() > 0; ++i) continue;
}

}  // namespace baton
