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
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kRoot = BATON_TEST_DATA "/../..";
const fs::path kFolder = kRoot / "router/page/files";
const fs::path kMarked = kRoot / "router/page/vendor/marked";

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
  size_t files = 1;
  ASSERT_NE(Find("/page/marked.js"), nullptr);
  EXPECT_EQ(Find("/page/marked.js")->body, Read(kMarked / "marked.js"));
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
  const std::regex named(
      "(?:from \"\\.|Worker\\(\"/page|(?:src|href)=\"/page)/([a-z_]+\\.(?:js|css))\"");
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

// A change to it would be lost with the next version, and could not be compared with the published
// one. The tag is the beginning of the file's SHA-256.
TEST(PageFilesTest, MarkedIsThePublishedOne) {
  EXPECT_EQ(Find("/page/marked.js")->etag, "\"9b3627e1e8480960846d5b5eb0f574ce\"");
}

TEST(PageFilesTest, ThePackageHasTheLicenceOfMarked) {
  const std::string copyright = Read(kRoot / "deploy/package/debian/copyright");
  const std::string stanza = copyright.substr(copyright.find("Files: marked\n"));
  std::string words;  // words of the licence, with one space between two
  for (absl::string_view word : absl::StrSplit(copyright, absl::ByAnyChar(" \n"))) {
    if (!word.empty() && word != ".") absl::StrAppend(&words, word, " ");
  }
  std::ifstream licence(kMarked / "LICENSE");
  bool permission = false;
  for (std::string line; std::getline(licence, line);) {
    if (absl::StartsWith(line, "Copyright (c) ")) {
      EXPECT_THAT(stanza, HasSubstr(line.substr(std::string("Copyright (c) ").size())));
    }
    permission = permission || absl::StartsWith(line, "Permission is hereby granted");
    if (permission && !line.empty()) {
      EXPECT_THAT(words, HasSubstr(line + " "));
    }
  }
  EXPECT_TRUE(permission);
}

}  // namespace
}  // namespace baton
