#include "router/trace/otlp_options.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"

namespace baton {
namespace {

using Variables = std::map<std::string, std::string>;

absl::Status Take(const Variables& variables, OtlpOptions& options) {
  return TakeOtelEnvironment(
      [&variables](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::string() : found->second;
      },
      options);
}

OtlpOptions Taken(const Variables& variables, OtlpOptions options = {}) {
  const absl::Status status = Take(variables, options);
  EXPECT_TRUE(status.ok()) << status;
  return options;
}

TEST(OtlpOptions, WithoutAnEndpointNothingIsExportedWhateverElseIsSet) {
  EXPECT_EQ(Taken({}).endpoint, "");
  EXPECT_EQ(Taken({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}).endpoint, "");
  EXPECT_EQ(Taken({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_SDK_DISABLED", "True"}})
                .endpoint,
            "");
  EXPECT_EQ(
      Taken({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_TRACES_EXPORTER", "none"}})
          .endpoint,
      "");
}

TEST(OtlpOptions, TheFlagComesBeforeTheVariablesAndThoseForTracesBeforeThoseForAll) {
  const Variables both = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/base/"},
                          {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/own"}};
  EXPECT_EQ(Taken(both).endpoint, "http://traces:4318/own");
  EXPECT_EQ(Taken({*both.begin()}).endpoint, "http://all:4318/base/v1/traces");
  EXPECT_EQ(Taken(both, {.endpoint = "http://flag:4318"}).endpoint, "http://flag:4318/v1/traces");
  EXPECT_EQ(Taken({}, {.endpoint = "https://flag/"}).endpoint, "https://flag/v1/traces");
  EXPECT_EQ(Taken({}, {.endpoint = "https://flag/own"}).endpoint, "https://flag/own");
  const OtlpUrl url = SplitOtlpUrl("http://flag:4318/v1/traces");
  EXPECT_EQ(url.origin, "http://flag:4318");
  EXPECT_EQ(url.path, "/v1/traces");
}

TEST(OtlpOptions, TheVariablesOfTheFieldAreHonoured) {
  const OtlpOptions options =
      Taken({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"},
             {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
             {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, x-scope=a=b"},
             {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
             {"OTEL_RESOURCE_ATTRIBUTES", "service.name=ignored,deployment.environment=test"},
             {"OTEL_SERVICE_NAME", "chat-router"},
             {"OTEL_TRACES_SAMPLER", "traceidratio"},
             {"OTEL_TRACES_SAMPLER_ARG", "0.25"}});
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(options.headers, (Pairs{{"authorization", "Bearer x"}, {"x-scope", "a=b"}}));
  EXPECT_EQ(options.timeout, absl::Milliseconds(2500));
  EXPECT_EQ(options.resource, (Pairs{{"deployment.environment", "test"}}));
  EXPECT_EQ(options.service_name, "chat-router");
  EXPECT_FALSE(options.sampler.by_parent);
  EXPECT_EQ(options.sampler.ratio, 0.25);
}

TEST(OtlpOptions, WhatIsNotThereIsRefusedByItsName) {
  const Variables wrong = {{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                           {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"},
                           {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
                           {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key"},
                           {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/none.pem"},
                           {"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"},
                           {"OTEL_EXPORTER_OTLP_HEADERS", "secret"},
                           {"OTEL_TRACES_SAMPLER", "jaeger_remote"},
                           {"OTEL_TRACES_EXPORTER", "zipkin"}};
  for (const auto& [name, value] : wrong) {
    OtlpOptions options;
    const absl::Status status =
        Take({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {name, value}}, options);
    EXPECT_TRUE(absl::StartsWith(status.message(), name)) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "secret")) << "a value that may be one";
  }
  OtlpOptions options;
  EXPECT_FALSE(Take({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
                     {"OTEL_TRACES_SAMPLER", "traceidratio"},
                     {"OTEL_TRACES_SAMPLER_ARG", "2"}},
                    options)
                   .ok());
}

TEST(OtlpOptions, AnEndpointIsAUrlWithoutAUser) {
  for (const char* bad : {"collector:4318", "grpc://c:4317", "http://", "http://:4318",
                          "http://user:word@c", "http://c/?x=1"}) {
    OtlpOptions options{.endpoint = bad};
    const absl::Status status = Take({}, options);
    EXPECT_TRUE(absl::StartsWith(status.message(), "--otlp-endpoint")) << bad;
    EXPECT_FALSE(absl::StrContains(status.message(), "word"));
  }
}

TEST(TraceSampler, TheCallerDecidesForItsOwnTraceAndTheRatioForTheOthers) {
  const std::string low = std::string(18, 'f') + "00000000000001";
  const std::string high = std::string(18, '0') + "f0000000000000";
  TraceParent caller;
  const TraceSampler half{.ratio = 0.5};
  EXPECT_FALSE(half.Samples(low, caller));
  caller.sampled = true;
  EXPECT_TRUE(half.Samples(high, caller));
  EXPECT_TRUE(half.Samples(low, {}));
  EXPECT_FALSE(half.Samples(high, {}));
  EXPECT_FALSE((TraceSampler{.by_parent = false, .ratio = 0.5}).Samples(high, caller));
  EXPECT_FALSE((TraceSampler{.ratio = 0}).Samples(low, {}));
}

}  // namespace
}  // namespace baton
