// A router with mock workers and its HTTP server, over real sockets.
#pragma once

#include <httplib.h>

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "router/http/http_server.h"
#include "tests/router/router_fixture.h"

namespace baton {

using Json = nlohmann::ordered_json;

class WebFixture : public RouterFixture {
 protected:
  ~WebFixture() override {
    if (http_ != nullptr) http_->Close();
    Stop();
  }

  void StartHttp() {
    Start();
    auto http = HttpServer::Listen("--http-listen", "127.0.0.1:0", Credentials::Loopback(),
                                   /*certificate_optional=*/false, {.cors_origins = cors_origins_});
    ASSERT_TRUE(http.ok()) << http.status();
    http_ = *std::move(http);
    http_->Start(router_->http_handler());
  }
  httplib::Client NewClient() const {
    httplib::Client client("http://" + http_->address());
    client.set_read_timeout(30);
    return client;
  }
  httplib::Result Post(const std::string& path, const Json& body,
                       const httplib::Headers& headers = {}) {
    return NewClient().Post(path, headers, body.dump(), "application/json");
  }
  // What a client asks so that the mock workers answer with letters, and the same by gRPC.
  static Json Completion(const std::string& prompt, int max_tokens) {
    return {{"prompt", prompt},
            {"max_tokens", max_tokens},
            {"seed", 7},
            {"ignore_eos", true},
            {"temperature", 1}};
  }

  std::vector<std::string> cors_origins_;
  // Outlives the router, whose last answers it sends.
  std::unique_ptr<HttpServer> http_;
};

}  // namespace baton
