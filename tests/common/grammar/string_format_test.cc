#include "common/grammar/string_format.h"

#include <regex>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(StringFormats, MatchStringsOfTheFormatAlone) {
  const struct {
    const char* format;
    std::vector<std::string> valid;
    std::vector<std::string> invalid;
  } cases[] = {
      {"date",
       {"2024-01-31", "1999-12-01", "2023-02-28", "2024-06-30"},
       {"2024-13-01", "2024-00-10", "2024-01-32", "2023-02-30", "2023-02-29", "2024-04-31",
        "24-01-01", "2024-1-1", "2024-01-01 "}},
      {"time",
       {"00:00:00Z", "23:59:59.123+01:00", "12:30:00-23:59"},
       {"24:00:00Z", "12:60:00Z", "12:00:00", "12:00:60Z", "12:00:00.Z", "12:00:00+24:00"}},
      {"date-time", {"2024-01-31T12:00:00Z"}, {"2024-01-31", "2024-01-31 12:00:00Z"}},
      {"email",
       {"a@b", "john.doe+x@mail.example.com", "a!b@x-y.org", "a.b.c.d@e.f.g.h.example"},
       {"a", "@b", "a@", "a..b@c", ".a@b", "a@b.", "a@-b", "a@b-", "a b@c", "\"a\"@b", "a@b@c"}},
      {"hostname",
       {"localhost", "a-b.c1.example", "1.example"},
       {"", "-a.com", "a-.com", "a_b", "a..b", "a.b."}},
      {"ipv4",
       {"0.0.0.0", "255.255.255.255", "192.168.1.20"},
       {"256.1.1.1", "1.1.1", "1.1.1.1.1", "01.1.1.1", "1.1.1.1."}},
      {"ipv6",
       {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::1:ABcd", "1::8", "1:2:3:4:5:6:7::"},
       {"", ":", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:", "::g",
        "1:2:3:4::5:6:7:8"}},
      {"uri",
       {"https://example.com", "http://a.b:80/c/d%20e/?q=1&r#top", "mailto:ann@example.com",
        "urn:isbn:0451450523"},
       {"", "example.com", "//a/b", "http://a b", "http:", "1a:b", "http://a/%zz", "a:b#c#d",
        "http://-a", "http://a-.b", "http://a..b"}},
      {"duration",
       {"P1Y2M3DT4H5M6S", "P2W", "PT30M", "P1DT12H", "P3M", "PT1H2M"},
       {"", "P", "PT", "1D", "P1D2W", "P1Y2D", "PT1H2S", "P1DT", "P1S"}},
      {"uuid",
       {"123e4567-e89b-12d3-a456-426614174000"},
       {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"}},
  };
  for (const auto& [format, valid, invalid] : cases) {
    const std::optional<std::string> pattern = FormatPattern(format);
    ASSERT_TRUE(pattern.has_value()) << format;
    const std::regex expression(*pattern, std::regex::ECMAScript);
    for (const std::string& text : valid) {
      EXPECT_TRUE(std::regex_match(text, expression)) << format << ": " << text;
    }
    for (const std::string& text : invalid) {
      EXPECT_FALSE(std::regex_match(text, expression)) << format << ": " << text;
    }
  }
  EXPECT_EQ(SupportedFormats(),
            "date, time, date-time, email, hostname, ipv4, ipv6, uri, duration, uuid");
}

TEST(StringFormats, OthersAreNotSupported) {
  for (const char* format :
       {"", "Date", "uri-reference", "idn-hostname", "regex", "json-pointer"}) {
    EXPECT_FALSE(FormatPattern(format).has_value()) << format;
  }
}

}  // namespace
}  // namespace baton
