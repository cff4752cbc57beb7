#include "bench/serve/report/record_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

constexpr char kFormat[] = "baton-load-record-1";

const char* OutcomeName(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::kCompleted:
      return "completed";
    case RequestOutcome::kRefused:
      return "refused";
    case RequestOutcome::kCut:
      return "cut";
    case RequestOutcome::kFailed:
      break;
  }
  return "failed";
}

const char* CountName(TokensTold count) {
  switch (count) {
    case TokensTold::kIds:
      return "ids";
    case TokensTold::kUsage:
      return "usage";
    case TokensTold::kSpread:
      return "spread";
    case TokensTold::kMessages:
      break;
  }
  return "messages";
}

void WriteLine(const nlohmann::ordered_json& json, std::ofstream& file) {
  file << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Create(const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--record ", path, ": cannot be written; name a file in a folder that can be written"));
  }
  return std::unique_ptr<RecordFile>(new RecordFile(path, std::move(file)));
}

RecordFile::RecordFile(std::string path, std::ofstream file)
    : path_(std::move(path)), file_(std::move(file)) {}

void RecordFile::Begin(const Head& head) {
  classes_ = head.classes;
  begin_ns_ = head.begin_ns;
  WriteLine({{"format", kFormat},
             {"target", head.target},
             {"objective", head.objective},
             {"classes", head.classes}},
            file_);
}

void RecordFile::Add(const LoadRecord& record) {
  nlohmann::ordered_json json = {{"id", record.id},
                                 {"class", classes_[record.load]},
                                 {"intended_ns", record.intended_ns - begin_ns_},
                                 {"sent_ns", record.sent_ns - begin_ns_},
                                 {"end_ns", record.end_ns - begin_ns_},
                                 {"messages", nlohmann::ordered_json::array()},
                                 {"asked_input_tokens", record.asked_input_tokens},
                                 {"asked_output_tokens", record.asked_output_tokens},
                                 {"input_tokens", record.input_tokens},
                                 {"count", CountName(record.count)},
                                 {"outcome", OutcomeName(record.outcome)},
                                 {"attempts", record.attempts},
                                 {"local_prefill", record.local_prefill},
                                 {"stages_ns", nlohmann::ordered_json::object()}};
  for (const TokenMessage& message : record.messages) {
    json["messages"].push_back({message.at_ns - begin_ns_, message.tokens});
  }
  for (size_t i = 0; i < kStages; ++i) {
    if (record.stages_ns[i].has_value()) json["stages_ns"][kStageNames[i]] = *record.stages_ns[i];
  }
  if (!record.kind.empty()) {
    json["kind"] = record.kind;
    json["error"] = record.error;
  }
  WriteLine(json, file_);
}

absl::Status RecordFile::End(const LoadWindow& window) {
  WriteLine({{"from_ns", window.from_ns - begin_ns_}, {"until_ns", window.until_ns - begin_ns_}},
            file_);
  file_.close();
  if (!file_.fail()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--record ", path_, ": could not be written completely; is the disk full?"));
}

}  // namespace baton
