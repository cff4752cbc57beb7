// A router with mock workers, its HTTP API on a real socket, and a client of it.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <functional>
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

  void StartHttp(const std::string& address = "127.0.0.1:0") {
    Start();
    auto http = HttpServer::Listen("--http-listen", address, Credentials::Loopback(),
                                   /*certificate_optional=*/false, http_options_);
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
  // Gives `take` the pieces of an answer as they come, until it returns false.
  void Stream(const Json& body, const std::function<bool(const char*, size_t)>& take) {
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body.dump();
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      return take(data, size);
    };
    httplib::Response response;
    httplib::Error error;
    httplib::Client client = NewClient();
    client.send(request, response, error);
  }
  // What a client asks so that the mock workers answer with letters, and the same by gRPC.
  static Json Completion(const std::string& prompt, int max_tokens) {
    return {{"prompt", prompt},
            {"max_tokens", max_tokens},
            {"seed", 7},
            {"ignore_eos", true},
            {"temperature", 1}};
  }
  std::string ExpectedText(const std::string& prompt, uint32_t max_tokens) {
    return Generate(Request(prompt, max_tokens)).text;
  }
  // The data of each event of a stream.
  static std::vector<std::string> Events(const std::string& body) {
    std::vector<std::string> events;
    std::istringstream lines(body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("data: ")) events.push_back(line.substr(6));
    }
    return events;
  }

  HttpServer::Options http_options_;
  // Outlives the router, whose last answers it sends.
  std::unique_ptr<HttpServer> http_;
};

}  // namespace baton
