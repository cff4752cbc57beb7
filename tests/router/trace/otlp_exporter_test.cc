#include "router/trace/otlp_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <deque>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "common/base/clock.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// A collector on loopback, which answers with the statuses that it is given, then with 200.
class Collector {
 public:
  explicit Collector(std::deque<int> statuses = {}) : statuses_(std::move(statuses)) {
    server_.Post("/v1/traces",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   const std::lock_guard lock(mutex_);
                   ++calls;
                   authorization = request.get_header_value("authorization");
                   type = request.get_header_value("content-type");
                   if (!statuses_.empty()) {
                     response.status = statuses_.front();
                     statuses_.pop_front();
                     return;
                   }
                   const Json body = Json::parse(request.body);
                   spans += body["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
                   response.set_content("{}", "application/json");
                 });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~Collector() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_, "/v1/traces"); }
  template <typename T>
  T Get(T Collector::*field) {
    const std::lock_guard lock(mutex_);
    return this->*field;
  }

  int calls = 0;
  size_t spans = 0;
  std::string authorization, type;

 private:
  std::mutex mutex_;
  std::deque<int> statuses_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

// One span.
RequestTrace OneSpan() {
  RequestTrace trace;
  trace.context.trace_id = std::string(32, 'a');
  trace.context.span_id = std::string(16, 'b');
  trace.spans.push_back({.name = "chat m", .begin_ns = 1, .end_ns = 2});
  return trace;
}

class OtlpExporterTest : public ::testing::Test {
 protected:
  OtlpExporter& Start(const std::string& url, absl::Duration timeout = absl::Seconds(10)) {
    return exporter_.emplace(
        OtlpOptions{
            .endpoint = url, .headers = {{"authorization", "Bearer x"}}, .timeout = timeout},
        OtlpResource{}, metrics_,
        OtlpExporter::Timing{.batch_wait = absl::Milliseconds(5),
                             .first_backoff = absl::Milliseconds(5)});
  }
  void ExpectCount(const std::string& result, int count) {
    EXPECT_THAT(metrics_.Scrape(),
                HasSubstr(absl::StrCat("baton_trace_exports_total{result=\"", result,
                                       "\",model_name=\"\",role=\"router\"} ", count, "\n")));
  }

  Metrics metrics_{"router"};
  std::optional<OtlpExporter> exporter_;
};

TEST_F(OtlpExporterTest, AllThatItTookIsSentBeforeItEnds) {
  Collector collector;
  OtlpExporter& exporter = Start(collector.url());
  for (int i = 0; i < 300; ++i) exporter.Take(OneSpan());
  EXPECT_TRUE(exporter.Close(absl::Seconds(10)));
  EXPECT_EQ(collector.Get(&Collector::spans), 300u);
  EXPECT_LT(collector.Get(&Collector::calls), 300) << "they go in batches";
  EXPECT_EQ(collector.Get(&Collector::authorization), "Bearer x");
  EXPECT_EQ(collector.Get(&Collector::type), "application/json");
  ExpectCount("exported", 300);
}

TEST_F(OtlpExporterTest, WhatTheCollectorPutsOffIsTriedAgain) {
  Collector collector({503, 429});
  OtlpExporter& exporter = Start(collector.url());
  exporter.Take(OneSpan());
  EXPECT_TRUE(exporter.Close(absl::Seconds(10)));
  EXPECT_EQ(collector.Get(&Collector::calls), 3);
  ExpectCount("exported", 1);
  EXPECT_THAT(metrics_.Scrape(), HasSubstr("baton_trace_export_retries_total{model_name=\"\","
                                           "role=\"router\"} 2\n"));
}

TEST_F(OtlpExporterTest, WhatTheCollectorRefusesIsNot) {
  Collector collector({400});
  OtlpExporter& exporter = Start(collector.url());
  exporter.Take(OneSpan());
  EXPECT_TRUE(exporter.Close(absl::Seconds(10)));
  EXPECT_EQ(collector.Get(&Collector::calls), 1);
  ExpectCount("failed", 1);
}

// A port where connections are taken and nothing is ever said.
class SilentPort {
 public:
  SilentPort() {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(socket_); }
  int port() const { return port_; }

 private:
  int socket_ = -1;
  int port_ = 0;
};

TEST_F(OtlpExporterTest, ASilentCollectorHoldsUpNobodyAndWhatDoesNotFitIsDropped) {
  SilentPort silent;
  OtlpExporter& exporter = Start(absl::StrCat("http://127.0.0.1:", silent.port(), "/v1/traces"),
                                 absl::Milliseconds(300));
  const absl::Time begin = SteadyNow();
  constexpr int kMore = 50;
  for (size_t i = 0; i < OtlpExporter::kQueueBound + OtlpExporter::kBatchBound + kMore; ++i) {
    exporter.Take(OneSpan());
  }
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(5));
  EXPECT_FALSE(exporter.Close(absl::Milliseconds(10)));
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(6));
  const std::string text = metrics_.Scrape();
  EXPECT_THAT(text, ::testing::ContainsRegex("result=.queue_full.*} [1-9]"));
}

}  // namespace
}  // namespace baton
