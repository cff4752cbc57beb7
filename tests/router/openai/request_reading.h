// Reads requests of the APIs in tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/string_view.h"

#include "common/rpc/status.h"
#include "router/api/answer_format.h"

namespace baton {

using ReadApiRequest = absl::StatusOr<ApiRequest> (*)(absl::string_view, const ApiContext&);

// Returns the context of a model with this chat template. The tests use at most two templates.
inline ApiContext ContextOf(const std::string& chat_template) {
  static const ToolForm& none = *new ToolForm(ToolForm::OfTemplate(""));
  static const ToolForm& special = *new ToolForm(ToolForm::OfTemplate(
      "{{ tools }}[TOOL_CALLS]", [](absl::string_view text) { return text == "[TOOL_CALLS]"; }));
  return {.model = "m",
          .request_id = "req",
          .answer_id = "ans",
          .tool_form = chat_template.empty() ? none : special};
}

// The only prompt of the request.
inline v1::GenerateRequest ReadOne(ReadApiRequest read, const std::string& body,
                                   const std::string& chat_template = "") {
  const auto request = read(body, ContextOf(chat_template));
  EXPECT_TRUE(request.ok()) << request.status() << " " << body;
  if (!request.ok()) return {};
  EXPECT_EQ(request->prompts.size(), 1u);
  EXPECT_EQ(request->stream, request->prompts[0].stream());
  EXPECT_NE(request->format, nullptr);
  return request->prompts[0];
}

// The field that is to blame for the request's error.
inline std::string Wrong(ReadApiRequest read, const std::string& body) {
  const absl::Status status = read(body, ContextOf("")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status << " " << body;
  const auto violations = FieldViolations(status);
  return violations.empty() ? "" : violations.front().field;
}

}  // namespace baton
