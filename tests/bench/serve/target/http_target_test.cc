// The load generator's HTTP against a server on a real socket that answers as each test says.
#include "bench/serve/target/http_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"
#include "common/base/clock.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr char kOneToken[] = "data: {\"choices\": [{\"text\": \"x\", \"token_ids\": [1]}]}\n\n";
constexpr char kUsageAndDone[] =
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 1}}\n\n"
    "data: [DONE]\n\n";

class HttpTargetTest : public testing::Test {
 protected:
  ~HttpTargetTest() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    server_.stop();
    thread_.join();
  }

  void SetUp() override {
    server_.Get("/v1/models", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("{\"data\": [{\"id\": \"first\"}]}", "application/json");
    });
    for (const char* route : {"/v1/completions", "/v1/chat/completions"}) {
      server_.Post(route, [this](const httplib::Request& request, httplib::Response& response) {
        bodies_.push_back(nlohmann::json::parse(request.body));
        ports_.push_back(request.remote_port);
        answer_(response);
      });
    }
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) absl::SleepFor(absl::Milliseconds(1));
  }

  HttpTarget::Options Options() const {
    return {.url = *ParseHttpUrl("http://127.0.0.1:" + std::to_string(port_))};
  }
  static std::unique_ptr<HttpTarget> Make(const HttpTarget::Options& options) {
    auto target = HttpTarget::Create(options, {}, Credentials::Loopback());
    EXPECT_TRUE(target.ok()) << target.status();
    return *std::move(target);
  }
  // Waits until the target returns the record.
  static void Finish(HttpTarget& target, const LoadRecord& record) {
    const absl::Time until = SteadyNow() + absl::Seconds(30);
    while (SteadyNow() < until) {
      for (const LoadRecord* ended : target.Poll(until)) {
        if (ended == &record) return;
      }
    }
    FAIL() << "it does not end";
  }
  LoadRecord Ask(HttpTarget& target) {
    LoadRecord record;
    target.Send({.prompt = {5, 6, 7}, .output_tokens = 1}, record);
    Finish(target, record);
    return record;
  }

  // REQUIRES: the answer to the request that reads them has come.
  std::vector<nlohmann::json> bodies_;
  std::vector<int> ports_;
  std::function<void(httplib::Response&)> answer_ = [](httplib::Response& response) {
    response.set_content(std::string(kOneToken) + kUsageAndDone, "text/event-stream");
  };
  absl::Notification go_on_;  // for answers that wait
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST_F(HttpTargetTest, AsksForAStreamOfTheFirstModelAndKeepsTheConnection) {
  const auto target = Make(Options());
  const LoadRecord record = Ask(*target);
  EXPECT_EQ(record.outcome, RequestOutcome::kCompleted) << record.error;
  EXPECT_EQ(record.messages.size(), 1u);
  EXPECT_EQ(record.input_tokens, 3u);
  EXPECT_LT(record.sent_ns, record.messages[0].at_ns);
  EXPECT_LE(record.messages[0].at_ns, record.end_ns);
  const nlohmann::json& body = bodies_.at(0);
  EXPECT_EQ(body["model"], "first");
  EXPECT_EQ(body["prompt"], nlohmann::json({5, 6, 7}));
  EXPECT_EQ(body["max_tokens"], 1);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["ignore_eos"], true);
  Ask(*target);
  EXPECT_EQ(ports_.at(0), ports_.at(1)) << "the same connection";
}

TEST_F(HttpTargetTest, AChatHasWordsAndTheExtraBodyChangesFields) {
  HttpTarget::Options options = Options();
  options.endpoint = HttpEndpoint::kChatCompletions;
  options.extra_body = "{\"ignore_eos\": null, \"top_k\": 1}";
  options.model = "mine";
  const auto target = Make(options);
  EXPECT_EQ(Ask(*target).outcome, RequestOutcome::kCompleted);
  const nlohmann::json& body = bodies_.at(0);
  EXPECT_EQ(body["model"], "mine");
  EXPECT_EQ(body["messages"][0]["content"], PromptWords({5, 6, 7}));
  EXPECT_FALSE(body.contains("ignore_eos"));
  EXPECT_EQ(body["top_k"], 1);
  options.extra_body = "[1]";
  EXPECT_THAT(HttpTarget::Create(options, {}, Credentials::Loopback()).status().ToString(),
              HasSubstr("--extra-body"));
}

TEST_F(HttpTargetTest, MessagesHaveTheTimesAtWhichTheyCame) {
  answer_ = [&](httplib::Response& response) {
    response.set_chunked_content_provider(
        "text/event-stream", [&](size_t, httplib::DataSink& sink) {
          const std::string token = kOneToken, rest = kUsageAndDone;
          // An event in two pieces, and then, once it was read, two events in one piece.
          sink.write(token.data(), 9);
          sink.write(token.data() + 9, token.size() - 9);
          go_on_.WaitForNotification();
          const std::string both = token + token + rest;
          sink.write(both.data(), both.size());
          sink.done();
          return true;
        });
  };
  const auto target = Make(Options());
  LoadRecord record;
  target->Send({.prompt = {5}, .output_tokens = 3}, record);
  while (record.messages.empty()) target->Poll(SteadyNow() + absl::Seconds(30));
  const int64_t came_ns = SteadyNanoseconds();
  go_on_.Notify();
  Finish(*target, record);
  ASSERT_EQ(record.messages.size(), 3u);
  EXPECT_LE(record.messages[0].at_ns, came_ns);
  EXPECT_GT(record.messages[1].at_ns, came_ns);
}

TEST_F(HttpTargetTest, RefusalsAndFailuresHaveTheirKinds) {
  const auto target = Make(Options());
  const auto answer = [&](int status, const std::string& body) {
    answer_ = [status, body](httplib::Response& response) {
      response.status = status;
      response.set_content(body, "application/json");
    };
    return Ask(*target);
  };
  const LoadRecord refused = answer(429, "{\"error\": {\"message\": \"the queue is full\"}}");
  EXPECT_EQ(refused.outcome, RequestOutcome::kRefused);
  EXPECT_EQ(refused.error, "the queue is full");
  const LoadRecord failed = answer(500, "{\"error\": \"broken\"}");
  EXPECT_EQ(failed.outcome, RequestOutcome::kFailed);
  EXPECT_EQ(failed.kind, "HTTP 500");
  EXPECT_EQ(failed.error, "HTTP 500: broken");
  const std::string too_late = "data: {\"error\": {\"type\": \"rate_limit_error\"}}\n\n";
  const LoadRecord refused_late = answer(200, too_late);
  EXPECT_EQ(refused_late.outcome, RequestOutcome::kRefused);
  EXPECT_THAT(refused_late.error, HasSubstr("rate_limit_error"));
  EXPECT_EQ(answer(200, kOneToken + too_late).outcome, RequestOutcome::kFailed);
  const LoadRecord cut = answer(200, kOneToken);
  EXPECT_EQ(cut.outcome, RequestOutcome::kFailed);
  EXPECT_THAT(cut.error, HasSubstr("INCOMPLETE: the stream ended without [DONE]"));
}

TEST_F(HttpTargetTest, TheDeadlineAndACancelEndARequest) {
  answer_ = [&](httplib::Response& response) {
    response.set_chunked_content_provider("text/event-stream",
                                          [&](size_t, httplib::DataSink& sink) {
                                            sink.write(kOneToken, sizeof(kOneToken) - 1);
                                            go_on_.WaitForNotification();
                                            sink.done();
                                            return true;
                                          });
  };
  HttpTarget::Options options = Options();
  options.timeout = absl::Seconds(1);
  const auto target = Make(options);
  const LoadRecord late = Ask(*target);
  EXPECT_EQ(late.outcome, RequestOutcome::kFailed);
  EXPECT_EQ(late.kind, "DEADLINE_EXCEEDED");
  EXPECT_EQ(late.messages.size(), 1u) << "what came before is kept";
  options.timeout = absl::Seconds(60);
  const auto patient = Make(options);
  LoadRecord record;
  patient->Send({.prompt = {5}, .output_tokens = 1}, record);
  while (record.messages.empty()) patient->Poll(SteadyNow() + absl::Seconds(30));
  record.cut = true;
  patient->Cancel(record);
  Finish(*patient, record);
  EXPECT_EQ(record.outcome, RequestOutcome::kCut);
}

TEST(HttpTargetConnections, OneThatTheServerHasClosedUnsaidIsFollowedByANewOne) {
  namespace asio = boost::asio;
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  absl::Notification closed[2];
  std::thread server([&] {
    const std::string events = std::string(kOneToken) + kUsageAndDone;
    const std::string answer =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Content-Length: " +
        std::to_string(events.size()) + "\r\n\r\n" + events;
    for (absl::Notification& each : closed) {
      asio::ip::tcp::socket socket = acceptor.accept();
      boost::beast::flat_buffer input;
      boost::beast::http::request<boost::beast::http::string_body> request;
      boost::beast::http::read(socket, input, request);
      asio::write(socket, asio::buffer(answer));
      socket.close();
      each.Notify();
    }
  });
  HttpTarget::Options options;
  options.url =
      *ParseHttpUrl("http://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()));
  options.model = "any";
  const auto target = HttpTarget::Create(options, {}, Credentials::Loopback());
  ASSERT_TRUE(target.ok()) << target.status();
  for (absl::Notification& each : closed) {
    LoadRecord record;
    (*target)->Send({.prompt = {5}, .output_tokens = 1}, record);
    while ((*target)->Poll(SteadyNow() + absl::Seconds(30)).empty()) continue;
    EXPECT_EQ(record.outcome, RequestOutcome::kCompleted) << record.error;
    each.WaitForNotification();
  }
  server.join();
}

TEST_F(HttpTargetTest, WithoutAServerOrAModelItSaysSo) {
  HttpTarget::Options options = Options();
  options.url = *ParseHttpUrl("http://127.0.0.1:1");
  EXPECT_THAT(HttpTarget::Create(options, {}, Credentials::Loopback()).status().ToString(),
              HasSubstr("--http: GET /v1/models at 127.0.0.1:1: connect"));
  options.url = *ParseHttpUrl("http://127.0.0.1:" + std::to_string(port_) + "/other");
  EXPECT_THAT(HttpTarget::Create(options, {}, Credentials::Loopback()).status().ToString(),
              HasSubstr("HTTP 404, and the answer lists no model"));
  options.url = *ParseHttpUrl("http://192.0.2.1:80");
  EXPECT_THAT(HttpTarget::Create(options, {}, Credentials::Loopback()).status().ToString(),
              HasSubstr("is beyond loopback and needs protection"));
}

}  // namespace
}  // namespace baton
