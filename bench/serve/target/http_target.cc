#include "bench/serve/target/http_target.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kAskTimeout = absl::Seconds(10);
constexpr size_t kMaxErrorBody = 64 << 10;
constexpr size_t kMaxErrorText = 200;
constexpr int kOk = 200, kTooManyRequests = 429;

constexpr std::array kWords = {
    "time",    "year",     "people", "way",     "day",    "man",      "thing",   "woman",
    "life",    "child",    "world",  "school",  "state",  "family",   "group",   "country",
    "problem", "hand",     "part",   "place",   "case",   "week",     "company", "system",
    "program", "question", "work",   "night",   "point",  "home",     "water",   "room",
    "mother",  "area",     "money",  "story",   "fact",   "month",    "lot",     "right",
    "study",   "book",     "eye",    "job",     "word",   "business", "issue",   "side",
    "kind",    "head",     "house",  "service", "friend", "father",   "power",   "hour",
    "game",    "line",     "end",    "member",  "law",    "car",      "city",    "name"};

// What an answer that is no 200 says of itself, with its beginning.
std::string ErrorText(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_string()) return error.get<std::string>().substr(0, kMaxErrorText);
    if (error.is_object() && error.contains("message") && error["message"].is_string()) {
      return error["message"].get<std::string>().substr(0, kMaxErrorText);
    }
  }
  return body.substr(0, kMaxErrorText);
}

}  // namespace

struct HttpTarget::Answer {
  explicit Answer(LoadRecord& record) : stream(record) {}

  OpenAiStream stream;
  std::string error_body;  // body of an answer that is no 200
  uint64_t call = 0;
};

HttpTarget::HttpTarget(const Options& options, std::unique_ptr<LoadHttpClient> client)
    : options_(options), client_(std::move(client)) {}

HttpTarget::~HttpTarget() = default;

absl::StatusOr<std::unique_ptr<HttpTarget>> HttpTarget::Create(const Options& options,
                                                               const TlsFlags& tls,
                                                               const Credentials& credentials) {
  const Json extra = options.extra_body.empty()
                         ? Json::object()
                         : Json::parse(options.extra_body, nullptr, /*allow_exceptions=*/false);
  if (!extra.is_object()) {
    return absl::InvalidArgumentError(
        "--extra-body: must be a JSON object, such as '{\"ignore_eos\": null}'");
  }
  BATON_ASSIGN_OR_RETURN(auto client, LoadHttpClient::Create(options.url, tls, credentials));
  std::unique_ptr<HttpTarget> target(new HttpTarget(options, std::move(client)));
  target->extra_body_ = extra;
  if (options.model.empty()) BATON_RETURN_IF_ERROR(target->AskModel());
  return target;
}

absl::Status HttpTarget::AskModel() {
  const std::string path = options_.url.RoutePath("/models");
  std::string body;
  std::optional<LoadHttpResult> result;
  client_->Start(
      {.method = "GET", .path = path, .authorization = options_.key.Authorization(), .body = ""},
      kAskTimeout,
      [&](int, absl::string_view bytes) {
        if (body.size() < kMaxErrorBody) absl::StrAppend(&body, bytes);
      },
      [&](const LoadHttpResult& ended) { result = ended; });
  while (!result.has_value()) client_->Poll(SteadyNow() + kAskTimeout);
  const std::string where = absl::StrCat("--http: GET ", path, " at ", options_.url.Authority());
  if (!result->error.empty()) {
    return absl::UnavailableError(absl::StrCat(where, ": ", result->error));
  }
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (result->status == kOk && json.is_object() && json.contains("data") &&
      json["data"].is_array() && !json["data"].empty() && json["data"][0].is_object() &&
      json["data"][0].contains("id") && json["data"][0]["id"].is_string()) {
    options_.model = json["data"][0]["id"].get<std::string>();
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(where, ": HTTP ", result->status,
                                             ", and the answer lists no model (", ErrorText(body),
                                             "); name one with --http-model"));
}

std::string HttpTarget::Body(const LoadRequest& request) const {
  Json body = {{"model", options_.model},
               {"max_tokens", request.output_tokens},
               {"temperature", 0},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"ignore_eos", true},
               {"return_token_ids", true},
               {"return_timings", true}};
  if (options_.endpoint == HttpEndpoint::kCompletions) {
    body["prompt"] = request.prompt;
  } else {
    body["messages"] = {{{"role", "user"}, {"content", PromptWords(request.prompt)}}};
  }
  body.merge_patch(extra_body_);
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void HttpTarget::Send(const LoadRequest& request, LoadRecord& record) {
  LoadHttpRequest http{
      .method = "POST",
      .path = options_.url.RoutePath(
          options_.endpoint == HttpEndpoint::kCompletions ? "/completions" : "/chat/completions"),
      .authorization = options_.key.Authorization(),
      .body = Body(request)};
  auto& answer = answers_[&record];
  answer = std::make_unique<Answer>(record);
  record.sent_ns = SteadyNanoseconds();
  answer->call = client_->Start(
      http, options_.timeout,
      [&answer = *answer](int status, absl::string_view bytes) {
        if (status == kOk) {
          answer.stream.Take(bytes, SteadyNanoseconds());
        } else if (answer.error_body.size() < kMaxErrorBody) {
          absl::StrAppend(&answer.error_body, bytes);
        }
      },
      [this, &record](const LoadHttpResult& result) { End(record, result); });
}

void HttpTarget::End(LoadRecord& record, const LoadHttpResult& result) {
  record.end_ns = SteadyNanoseconds();
  Answer& answer = *answers_.at(&record);
  const std::string wrong = answer.stream.End();
  if (result.status == kTooManyRequests || answer.stream.refused()) {
    record.outcome = RequestOutcome::kRefused;
    record.kind = "HTTP 429";
    record.error = answer.stream.refused() ? wrong : ErrorText(answer.error_body);
  } else if (result.status == kOk && result.error.empty() && wrong.empty()) {
    record.outcome = RequestOutcome::kCompleted;
  } else if (record.cut && result.cancelled) {
    record.outcome = RequestOutcome::kCut;
  } else {
    record.outcome = RequestOutcome::kFailed;
    if (result.timed_out) {
      record.kind = "DEADLINE_EXCEEDED";
    } else if (result.status != 0 && result.status != kOk) {
      record.kind = absl::StrCat("HTTP ", result.status);
    } else {
      record.kind = result.error.empty() ? "INCOMPLETE" : "UNAVAILABLE";
    }
    record.error = !result.error.empty()  ? result.error
                   : result.status != kOk ? ErrorText(answer.error_body)
                                          : wrong;
    record.error = absl::StrCat(record.kind, ": ", record.error);
  }
  answers_.erase(&record);
  ended_.push_back(&record);
}

std::vector<LoadRecord*> HttpTarget::Poll(absl::Time until) {
  if (ended_.empty()) client_->Poll(until);
  return std::exchange(ended_, {});
}

void HttpTarget::Cancel(LoadRecord& record) { client_->Cancel(answers_.at(&record)->call); }

std::string PromptWords(const std::vector<uint32_t>& ids) {
  std::string text;
  for (const uint32_t id : ids) {
    absl::StrAppend(&text, text.empty() ? "" : " ", kWords[id % kWords.size()]);
  }
  return text;
}

}  // namespace baton
