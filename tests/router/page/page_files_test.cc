#include "router/page/page_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = BATON_TEST_DATA "/../../router/page/files";

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const PageFile* Find(absl::string_view path) {
  for (const PageFile& file : PageFiles()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

TEST(PageFilesTest, EachFileOfTheFolderIsThereByteByByte) {
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename();
    const PageFile* file = Find(name == "index.html" ? "/" : absl::StrCat("/page/", name));
    ASSERT_NE(file, nullptr) << name;
    EXPECT_EQ(file->body, Read(entry.path())) << name;
    ++files;
  }
  EXPECT_EQ(PageFiles().size(), files);
}

TEST(PageFilesTest, TheyAreInTheOrderOfTheirPaths) {
  EXPECT_TRUE(std::is_sorted(
      PageFiles().begin(), PageFiles().end(),
      [](const PageFile& one, const PageFile& other) { return one.path < other.path; }));
}

TEST(PageFilesTest, EachHasATypeByItsNameAndAQuotedTagOfItsOwn) {
  std::set<absl::string_view> tags;
  for (const PageFile& file : PageFiles()) {
    const absl::string_view type = file.path == "/"                    ? "text/html"
                                   : absl::EndsWith(file.path, ".css") ? "text/css"
                                                                       : "text/javascript";
    EXPECT_EQ(file.content_type, absl::StrCat(type, "; charset=utf-8")) << file.path;
    EXPECT_TRUE(std::regex_match(std::string(file.etag), std::regex("\"[0-9a-f]{32}\"")))
        << file.etag;
    EXPECT_TRUE(tags.insert(file.etag).second) << file.path;
  }
}

TEST(PageFilesTest, WhatTheyNameIsThere) {
  const std::regex named("(?:from \"\\.|(?:src|href)=\"/page)/([a-z_]+\\.(?:js|css))\"");
  for (const PageFile& file : PageFiles()) {
    const std::string body(file.body);
    for (std::sregex_iterator match(body.begin(), body.end(), named), end; match != end; ++match) {
      EXPECT_NE(Find(absl::StrCat("/page/", (*match)[1].str())), nullptr)
          << file.path << " names " << (*match)[1];
    }
  }
}

// The policy that they are sent with would refuse some of it in the browser; markup made of a
// string is what lets a model's text act.
TEST(PageFilesTest, NoneHasInlineCodeOrMakesMarkupOfText) {
  const std::regex markup(
      "innerHTML|outerHTML|insertAdjacentHTML|document\\.write|eval\\(|new Function|"
      "<script>|<style|\\sstyle=|\\son[a-z]+=");
  for (const PageFile& file : PageFiles()) {
    std::smatch match;
    const std::string body(file.body);
    EXPECT_FALSE(std::regex_search(body, match, markup)) << file.path << ": " << match.str();
  }
}

}  // namespace
}  // namespace baton
