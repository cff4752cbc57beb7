#include "router/tools/marker_search.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

const std::vector<std::string>& Markers() {
  static const auto& markers = *new std::vector<std::string>{"<one>", "<two>"};
  return markers;
}

TEST(MarkerSearch, FindsTheFirstMarkerAndTheBlanksThatBelongToIt) {
  const MarkerSearch search = FindMarker("ab \n<two>c<one>", Markers());
  EXPECT_EQ(search.marker, 1);
  EXPECT_EQ(search.text_bytes, 2u);
  EXPECT_EQ(search.begin, 4u);
  EXPECT_EQ(search.end, 9u);
}

TEST(MarkerSearch, HoldsBackWhatMayBecomeAMarker) {
  for (const char* text : {"ab", "ab ", "ab <", "ab <tw"}) {
    const MarkerSearch search = FindMarker(text, Markers());
    EXPECT_EQ(search.marker, -1) << text;
    EXPECT_EQ(search.text_bytes, 2u) << text;
  }
  EXPECT_EQ(FindMarker("ab <tx", Markers()).text_bytes, 6u) << "it cannot become one any more";
}

TEST(MarkerSearch, SoManyBlanksBelongToAMarker) {
  const std::string text = "a" + std::string(kMaxMarkerBlanks + 3, ' ');
  EXPECT_EQ(FindMarker(text, Markers()).text_bytes, 4u);
  EXPECT_EQ(FindMarker(text + "<one>", Markers()).text_bytes, 4u);
}

TEST(MarkerSearch, LeavesLittleMoreThanAMarker) {
  const std::string text = "a  <on  <" + std::string(40, ' ') + "<<two";
  for (size_t size = 0; size <= text.size(); ++size) {
    const MarkerSearch search = FindMarker(text.substr(0, size), Markers());
    EXPECT_LE(size - search.text_bytes, kMaxMarkerBlanks + Markers()[0].size()) << size;
  }
}

}  // namespace
}  // namespace baton
