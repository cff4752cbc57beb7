#include "tests/support/fault_link.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using Flow = LinkFaults::Flow;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

std::string Letters(size_t size) {
  std::string text(size, ' ');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
  return text;
}

// Takes all bytes that are due at `now`.
std::string Take(FaultLink& link, absl::Time now) {
  std::string taken;
  while (!link.Due(now).empty()) {
    taken += std::string(link.Due(now));
    link.Consume(link.Due(now).size());
  }
  return taken;
}

// The bytes that come out of a link into which `text` is pushed piece by piece; empty after a
// reset.
std::string Through(const LinkFaults& faults, uint64_t seed, const std::string& text,
                    size_t piece) {
  SharedWire wire;
  FaultLink link(seed, wire);
  link.SetFaults(faults);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) {
    if (!link.Push(absl::string_view(text).substr(at, piece), kStart)) return "";
    out += Take(link, absl::InfiniteFuture());
  }
  return out;
}

TEST(FaultLink, WithoutFaultsEveryByteComesAtOnceAndInOrder) {
  EXPECT_EQ(Through({}, 1, Letters(100'000), 999), Letters(100'000));
}

TEST(FaultLink, ADelayHoldsEveryByteBackAndJitterKeepsTheOrder) {
  SharedWire wire;
  FaultLink link(1, wire);
  link.SetFaults({.delay = absl::Milliseconds(20), .jitter = absl::Milliseconds(10)});
  std::string sent;
  std::string received;
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = kStart + i * absl::Milliseconds(1);
    const std::string piece = Letters(static_cast<size_t>(i % 17 + 1));
    ASSERT_TRUE(link.Push(piece, now));
    sent += piece;
    if (i == 19) {
      EXPECT_EQ(Take(link, now), "");
    }
    received += Take(link, now);
  }
  EXPECT_GT(link.NextDue(), kStart + absl::Milliseconds(999));
  const absl::Time latest = kStart + absl::Milliseconds(999 + 30);
  EXPECT_EQ(received + Take(link, latest), sent);
}

// However late and unevenly the proxy wakes up, as long as what it holds lasts.
TEST(FaultLink, ARateIsKeptWithinTwoPercentByAProxyThatWakesUpLate) {
  constexpr double kRate = 12.5e6;  // 100 Mbit/s
  SharedWire wire;
  FaultLink link(1, wire);
  link.SetFaults({.bytes_per_second = kRate});
  std::mt19937 random(5);
  absl::Time now = kStart;
  size_t received = 0;
  while (now < kStart + absl::Seconds(10)) {
    while (link.Room() > 0) ASSERT_TRUE(link.Push(std::string(link.Room(), 'x'), now));
    now += absl::Microseconds(random() % 40'000);
    received += Take(link, now).size();
    const double seconds = absl::ToDoubleSeconds(now - kStart);
    EXPECT_LE(static_cast<double>(received), kRate * seconds * 1.0001);
  }
  EXPECT_GE(static_cast<double>(received), kRate * absl::ToDoubleSeconds(now - kStart) * 0.98);
}

TEST(FaultLink, ConnectionsOfOneDirectionShareItsRate) {
  SharedWire wire;
  FaultLink a(1, wire);
  FaultLink b(2, wire);
  for (FaultLink* link : {&a, &b}) link->SetFaults({.bytes_per_second = 1000});
  ASSERT_TRUE(a.Push(std::string(500, 'a'), kStart));
  ASSERT_TRUE(b.Push(std::string(500, 'b'), kStart));
  EXPECT_EQ(Take(a, kStart + absl::Milliseconds(500)).size(), 500u);
  EXPECT_EQ(Take(b, kStart + absl::Milliseconds(999)).size(), 0u);
  EXPECT_EQ(Take(b, kStart + absl::Milliseconds(1000)).size(), 500u);
}

TEST(FaultLink, HoldsNoMoreThanTheLinkHasUnderWay) {
  SharedWire wire;
  FaultLink link(1, wire);
  link.SetFaults({.delay = absl::Milliseconds(50), .bytes_per_second = 10e6});
  size_t held = 0;
  for (; link.Room() > 0; held += link.Room()) {
    ASSERT_TRUE(link.Push(std::string(link.Room(), 'x'), kStart));
    ASSERT_LT(held, size_t{32} << 20);
  }
  EXPECT_LE(held, 1'000'000u);
}

TEST(FaultLink, DamagesTheNamedByteAndNoOther) {
  std::string expected = Letters(10'000);
  const std::string damaged = Through({.flip_at = 4321}, 9, expected, 100);
  ASSERT_EQ(damaged.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(damaged[i] == expected[i], i != 4321) << i;
}

TEST(FaultLink, TheSameSeedDoesTheSameDamageHoweverTheReadsCutTheBytes) {
  const std::string text = Letters(size_t{4} << 20);
  const LinkFaults flips{.flips_per_mib = 20};
  const std::string once = Through(flips, 3, text, 16'000);
  size_t differing = 0;
  for (size_t i = 0; i < text.size(); ++i) differing += once[i] != text[i] ? 1 : 0;
  EXPECT_GT(differing, 40u);
  EXPECT_LT(differing, 160u);
  EXPECT_EQ(once, Through(flips, 3, text, 777));
  EXPECT_NE(once, Through(flips, 4, text, 16'000));
}

TEST(FaultLink, ResetsAsOftenAsItWasTold) {
  const std::string text = Letters(size_t{1} << 20);
  int resets = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const bool reset = Through({.resets_per_mib = 0.5}, seed, text, 16'384).empty();
    EXPECT_EQ(reset, Through({.resets_per_mib = 0.5}, seed, text, 5'000).empty());
    resets += reset ? 1 : 0;
  }
  EXPECT_GT(resets, 50);  // 1 - exp(-0.5) of 200 is 79
  EXPECT_LT(resets, 110);
}

TEST(FaultLink, SwallowsWhatIsQueuedAndWhatComesAndTheEndToo) {
  SharedWire wire;
  FaultLink link(1, wire);
  link.SetFaults({.delay = absl::Milliseconds(5)});
  ASSERT_TRUE(link.Push("before", kStart));
  link.SetFaults({.flow = Flow::kSwallow});
  EXPECT_GT(link.Room(), 0u);
  ASSERT_TRUE(link.Push("after", kStart));
  link.PushEnd(kStart);
  EXPECT_EQ(Take(link, absl::InfiniteFuture()), "");
  EXPECT_FALSE(link.EndDue(absl::InfiniteFuture()));
  EXPECT_EQ(link.swallowed_bytes(), 11u);
}

TEST(FaultLink, AStalledLinkReadsAndWritesNothingAndGoesOnWhenItIsHealed) {
  SharedWire wire;
  FaultLink link(1, wire);
  ASSERT_TRUE(link.Push("queued", kStart));
  link.SetFaults({.flow = Flow::kStall});
  EXPECT_EQ(link.Room(), 0u);
  EXPECT_EQ(Take(link, absl::InfiniteFuture()), "");
  EXPECT_EQ(link.NextDue(), absl::InfiniteFuture());
  link.SetFaults({});
  EXPECT_EQ(Take(link, kStart), "queued");
}

TEST(FaultLink, TheEndComesAfterTheLastByte) {
  SharedWire wire;
  FaultLink link(1, wire);
  link.SetFaults({.delay = absl::Milliseconds(5)});
  ASSERT_TRUE(link.Push("last", kStart));
  link.PushEnd(kStart);
  EXPECT_FALSE(link.EndDue(kStart + absl::Seconds(1)));
  EXPECT_EQ(Take(link, kStart + absl::Seconds(1)), "last");
  EXPECT_TRUE(link.EndDue(kStart + absl::Seconds(1)));
}

TEST(ParseLinkFaults, ReadsEveryFault) {
  const absl::StatusOr<LinkFaults> faults = ParseLinkFaults(
      "delay_ms=20 jitter_ms=0.5 bytes_per_second=12500000 flow=stall flips_per_mib=0.1 "
      "resets_per_mib=0.05 flip_at=1000");
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_EQ(faults->delay, absl::Milliseconds(20));
  EXPECT_EQ(faults->jitter, absl::Microseconds(500));
  EXPECT_EQ(faults->bytes_per_second, 12.5e6);
  EXPECT_EQ(faults->flow, Flow::kStall);
  EXPECT_EQ(faults->flips_per_mib, 0.1);
  EXPECT_EQ(faults->resets_per_mib, 0.05);
  EXPECT_EQ(faults->flip_at, 1000u);
}

TEST(ParseLinkFaults, RefusesWhatItDoesNotKnowByName) {
  for (const char* text : {"dely_ms=20", "delay_ms=-1", "delay_ms=x", "flow=drop", "delay_ms"}) {
    const absl::Status status = ParseLinkFaults(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
  }
}

}  // namespace
}  // namespace baton
