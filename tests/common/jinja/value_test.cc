#include "common/jinja/value.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

TEST(Dict, ALaterItemReplacesAnEarlierOneInItsPlace) {
  TestValues values;
  const Value dict = values.DictOf({{values.Own("a"), values.Int(1)},
                                    {values.Int(1), values.Own("one")},
                                    {values.Own("a"), values.Int(2)},
                                    {Value{true}, values.Own("true")},
                                    {Value{1.0}, values.Own("float")}});
  EXPECT_EQ(Shown(dict), "{'a': 2, 1: 'float'}");
  const auto find = [&](absl::string_view key) {
    return FindItem(values.workspace(), *dict.dict(), key);
  };
  EXPECT_EQ(Shown(**find("a")), "2");
  EXPECT_EQ(*find("1"), nullptr);
}

TEST(Dict, KeysAreTextOrNumbers) {
  TestValues values;
  for (const Value& key : {Value{None{}}, values.Missing(), values.ListOf({})}) {
    EXPECT_EQ(values.workspace().NewDict({{key, values.Int(1)}}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << Shown(key);
  }
}

TEST(Value, IsTrueWhereItsPythonFormIs) {
  TestValues values;
  for (const Value& value : {Value{true}, values.Int(-1), Value{0.5}, Value{std::nan("")},
                             values.Own(" "), values.ListOf({Value{None{}}}), values.Generator({}),
                             values.DictOf({{values.Int(0), values.Int(0)}}),
                             Value{NativeFunction::kRange}, *values.workspace().NewNamespace({})}) {
    EXPECT_TRUE(IsTrue(value)) << Shown(value);
  }
  for (const Value& value :
       {Value{false}, values.Int(0), Value{-0.0}, values.Own(""), values.ListOf({}),
        values.DictOf({}), Value{None{}}, values.Missing()}) {
    EXPECT_FALSE(IsTrue(value)) << Shown(value);
  }
}

TEST(Value, IsWrittenAsPythonWritesItAndKeepsItsOrigin) {
  TestValues values;
  const auto text = [&](const Value& value) -> std::string {
    const auto written = ToText(values.workspace(), value);
    return written.ok() ? Shown(**written) : absl::StrCat("error: ", written.status().message());
  };
  EXPECT_EQ(text(Value{None{}}), "None");
  EXPECT_EQ(text(Value{true}), "True");
  EXPECT_EQ(text(Value{false, false}), "<False>");
  EXPECT_EQ(text(values.Int(-12)), "-12");
  EXPECT_EQ(text(values.Int(7, false)), "<7>");
  EXPECT_EQ(text(values.Missing()), "");
  EXPECT_EQ(text(values.Message("m")), "<m>");
  EXPECT_EQ(text(values.ListOf({values.Message("m"), Value{None{}}})), "['<m>', None]");
  EXPECT_EQ(text(values.DictOf({{values.Own("k"), Value{true}}})), "{'k': True}");
  EXPECT_EQ(text(values.Generator({})),
            "error: a generator (use list) cannot be converted to text");
}

TEST(FormatFloat, IsPythonsRepr) {
  EXPECT_EQ(FormatFloat(0.0), "0.0");
  EXPECT_EQ(FormatFloat(-0.0), "-0.0");
  EXPECT_EQ(FormatFloat(100.0), "100.0");
  EXPECT_EQ(FormatFloat(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(FormatFloat(0.0001), "0.0001");
  EXPECT_EQ(FormatFloat(0.00009), "9e-05");
  EXPECT_EQ(FormatFloat(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(FormatFloat(1e16), "1e+16");
  EXPECT_EQ(FormatFloat(-1.5e-7), "-1.5e-07");
  EXPECT_EQ(FormatFloat(5e-324), "5e-324");
  EXPECT_EQ(FormatFloat(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(FormatFloat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(FormatFloat(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(FormatFloat(std::nan("")), "nan");
}

TEST(Equals, ComparesContentsAndNumbersAcrossTheirTypes) {
  TestValues values;
  const auto equal = [&](const Value& a, const Value& b) {
    const auto forth = Equals(values.workspace(), a, b);
    const auto back = Equals(values.workspace(), b, a);
    EXPECT_TRUE(forth.ok() && back.ok());
    EXPECT_EQ(*forth, *back);
    return *forth;
  };
  EXPECT_TRUE(equal(values.Int(1), Value{true}));
  EXPECT_TRUE(equal(values.Int(2), Value{2.0}));
  EXPECT_FALSE(equal(values.Int(1), values.Own("1")));
  EXPECT_TRUE(equal(values.Own("a"), values.Message("a")));
  EXPECT_TRUE(equal(Value{None{}}, Value{None{}}));
  EXPECT_FALSE(equal(Value{None{}}, values.Missing()));
  // Beyond 2^53 a double cannot tell neighbours apart; two integers can.
  EXPECT_FALSE(equal(values.Int((int64_t{1} << 53) + 1), values.Int(int64_t{1} << 53)));

  const Value ab =
      values.DictOf({{values.Own("a"), values.Int(1)}, {values.Own("b"), values.Int(2)}});
  const Value ba =
      values.DictOf({{values.Own("b"), values.Int(2)}, {values.Own("a"), values.Int(1)}});
  EXPECT_TRUE(equal(ab, ba));
  EXPECT_FALSE(equal(
      ab, values.DictOf({{values.Own("a"), values.Int(1)}, {values.Own("b"), values.Int(3)}})));
  EXPECT_FALSE(equal(ab, values.DictOf({{values.Own("a"), values.Int(1)}})));
  EXPECT_TRUE(equal(values.ListOf({ab, values.Int(1)}), values.ListOf({ba, Value{1.0}})));
  EXPECT_FALSE(
      equal(values.ListOf({values.Int(1)}), values.ListOf({values.Int(1), values.Int(2)})));
}

TEST(Iterate, VisitsItemsKeysAndCharacters) {
  TestValues values;
  const auto visited = [&](const Value& value) -> std::string {
    const auto list = Iterate(values.workspace(), value);
    return list.ok() ? Shown(Value{*list}) : absl::StrCat("error: ", list.status().message());
  };
  EXPECT_EQ(visited(values.ListOf({values.Int(1), values.Int(2)})), "[1, 2]");
  EXPECT_EQ(visited(values.DictOf({{values.Own("k"), values.Int(2)}})), "['k']");
  EXPECT_EQ(visited(values.Message("a\u4e16\xff")), "['<a>', '<\u4e16>', '<\xff>']");
  EXPECT_EQ(visited(values.Missing()), "[]");
  EXPECT_EQ(visited(values.Int(3)), "error: cannot iterate over a integer");
  EXPECT_EQ(visited(Value{None{}}), "error: cannot iterate over a none");
}

TEST(TrustOf, IsThatOfTheBytesOrTheNumber) {
  TestValues values;
  EXPECT_TRUE(TrustOf(values.Own("a")));
  EXPECT_FALSE(TrustOf(values.Message("a")));
  EXPECT_FALSE(TrustOf(values.Int(1, false)));
}

TEST(TrustOf, OfAContainerIsThatOfItsSizeAndOfAllInIt) {
  TestValues values;
  const Value list = values.ListOf({values.Own("a"), values.Message("m")});
  EXPECT_TRUE(list.list()->trusted_size);
  EXPECT_FALSE(TrustOf(list));
  EXPECT_FALSE(TrustOf(values.ListOf({list})));
  EXPECT_TRUE(TrustOf(values.ListOf({values.Own("a")})));
  const Value dict = values.DictOf({{values.Own("a"), values.Message("m")}});
  EXPECT_TRUE(dict.dict()->trusted_size);
  EXPECT_FALSE(TrustOf(dict));
  EXPECT_FALSE(values.DictOf({{values.Message("m"), values.Int(1)}}).dict()->trusted_size);
}

}  // namespace
}  // namespace baton::jinja
