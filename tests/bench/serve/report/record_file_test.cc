#include "bench/serve/report/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(RecordFile, HasTheHeadEachRequestAndTheWindow) {
  const std::string path = testing::TempDir() + "/baton_record_file";
  const auto file = RecordFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->Begin({.target = "t", .objective = "ttft=1s", .classes = {"a", "b"}, .begin_ns = 1000});
  LoadRecord record{.load = 1, .id = 5, .intended_ns = 1010, .sent_ns = 1020, .end_ns = 1090};
  record.messages = {{1030, 1}, {1050, 3}};
  record.kind = "UNAVAILABLE";
  record.error = "gone \xff";
  record.stages_ns[2] = 17;
  (*file)->Add(record);
  ASSERT_TRUE((*file)->End({.from_ns = 1000, .until_ns = 1100}).ok());
  std::vector<json> lines;
  std::ifstream read(path);
  for (std::string line; std::getline(read, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["format"], "baton-load-record-1");
  EXPECT_EQ(lines[1]["class"], "b");
  EXPECT_EQ(lines[1]["intended_ns"], 10);
  EXPECT_EQ(lines[1]["messages"], json::parse("[[30,1],[50,3]]"));
  EXPECT_EQ(lines[1]["outcome"], "failed");
  EXPECT_EQ(lines[1]["stages_ns"], json::parse(R"({"prefill":17})"));
  EXPECT_EQ(lines[2]["until_ns"], 100);
}

TEST(RecordFile, WhatCannotBeWrittenIsNamed) {
  EXPECT_THAT(RecordFile::Create("/no/such/folder/record").status().ToString(),
              HasSubstr("--record /no/such/folder/record"));
  const auto full = RecordFile::Create("/dev/full");
  ASSERT_TRUE(full.ok());
  (*full)->Begin({.target = "t", .objective = "", .classes = {}});
  EXPECT_THAT((*full)->End({}).ToString(), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace baton
