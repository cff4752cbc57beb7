// Whether a request treats its fields as the table of its API says, and the document tells the
// same.
#pragma once

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "router/openai/common_fields.h"
#include "router/openai/field_table.h"
#include "tests/router/api/shown_chat.h"

namespace baton {

using ReadPrompt =
    std::function<absl::StatusOr<v1::GenerateRequest>(const nlohmann::ordered_json& body)>;

// Gives each field values of several types. `body` is a request that is read without error.
inline void CheckFieldUses(absl::Span<const FieldHandling> table,
                           const nlohmann::ordered_json& body, const ReadPrompt& read) {
  using Json = nlohmann::ordered_json;
  const auto plain = read(body);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const std::vector<Json> values = {true, 3.5, -7, "odd", Json::array({-1}), {{"odd", 1}}};
  for (const FieldHandling& field : table) {
    Json sent = body;
    int refused = 0, unchanged = 0;
    for (const Json& value : values) {
      sent[field.name] = value;
      const auto request = read(sent);
      refused += request.ok() ? 0 : 1;
      if (request.ok()) {
        unchanged += request->SerializeAsString() == plain->SerializeAsString() ? 1 : 0;
      } else {
        EXPECT_EQ(FieldOf(request.status()).rfind(field.name, 0), 0) << FieldOf(request.status());
      }
    }
    const int all = static_cast<int>(values.size());
    SCOPED_TRACE(field.name);
    if (field.handling == Handling::kRefused) {
      EXPECT_EQ(refused, all);
      sent[field.name] = Json::parse(field.harmless);
      EXPECT_TRUE(read(sent).ok());
    } else if (field.handling == Handling::kTolerated) {
      EXPECT_EQ(unchanged, all);
    } else {
      EXPECT_GT(refused, 0) << "a value of a wrong type is taken";
    }
    if (body.contains(field.name)) continue;
    sent[field.name] = nullptr;
    const auto null = read(sent);
    ASSERT_TRUE(null.ok()) << null.status();
    EXPECT_EQ(null->SerializeAsString(), plain->SerializeAsString());
  }
}

// The table's rows in docs/dialects.md, below the heading: "| served | `a`, `b` |".
inline void CheckFieldDocument(absl::Span<const FieldHandling> table, const std::string& heading) {
  std::ifstream file(BATON_TEST_DATA "/../../docs/dialects.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const size_t begin = document.find(absl::StrCat("\n## ", heading, "\n"));
  ASSERT_NE(begin, std::string::npos) << "docs/dialects.md has no heading " << heading;
  const std::string section = document.substr(begin, document.find("\n## ", begin + 1) - begin);
  constexpr std::pair<Handling, const char*> kRows[] = {{Handling::kServed, "served"},
                                                        {Handling::kTolerated, "tolerated"},
                                                        {Handling::kRefused, "refused"}};
  for (const auto& [handling, name] : kRows) {
    std::vector<std::string> names;
    for (const FieldHandling& field : table) {
      if (field.handling == handling) names.push_back(absl::StrCat("`", field.name, "`"));
    }
    const std::string row = absl::StrCat("\n| ", name, " | ", absl::StrJoin(names, ", "), " |\n");
    EXPECT_NE(section.find(row), std::string::npos) << "docs/dialects.md needs:" << row;
  }
}

}  // namespace baton
