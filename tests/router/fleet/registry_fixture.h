// A registry whose workers' Watch streams a test plays in virtual time.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "router/fleet/worker_registry.h"
#include "tests/router/fleet/played_watches.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/router/virtual_loop.h"

namespace baton {

// A ready worker introduces itself.
inline internal::v1::WatchResponse Introduction(internal::v1::WorkerRole role,
                                                uint64_t incarnation = 1) {
  internal::v1::WatchResponse message;
  internal::v1::WorkerInfo& info = *message.mutable_info();
  info.set_name(role == internal::v1::WORKER_ROLE_DECODE ? "d" : "p");
  info.set_role(role);
  info.set_incarnation(incarnation);
  info.mutable_identity()->set_protocol_version(kProtocolVersion);
  info.mutable_identity()->set_architecture("llama");
  info.mutable_identity()->set_tokenizer_digest("digest");
  info.mutable_shape()->set_layers(2);
  info.mutable_shape()->set_kv_heads(1);
  info.mutable_shape()->set_head_dim(64);
  info.mutable_shape()->set_dtype("f16");
  info.mutable_shape()->set_block_size(16);
  info.set_total_blocks(100);
  info.set_max_model_len(1000);
  message.set_state(internal::v1::WORKER_STATE_READY);
  return message;
}

// A registry without targets.
class RegistryFixture : public testing::Test {
 protected:
  // A little more than kWatchInterval: by then the registry has looked at all its workers again.
  static constexpr absl::Duration kTurn = absl::Milliseconds(251);
  static constexpr char kPrefillAddress[] = "p:1", kDecodeAddress[] = "d:1";

  RegistryFixture() { registry_.Start(); }
  ~RegistryFixture() override {
    bool closed = false;
    registry_.Close([&closed] { closed = true; });
    while (!closed) queue_.RunNext();
    EXPECT_FALSE(watches_.IsOpen(kPrefillAddress) || watches_.IsOpen(kDecodeAddress));
  }

  WorkerRegistry::Options Options() {
    return {
        .model = {.tokenizer_digest = "digest", .name = "m", .architecture = "llama"},
        .connect = watches_.Connect(),
        .advertised_hosts = {"10.8.0.0/16"},
        .on_change = [] {},
        .on_lost = [this](uint64_t, const absl::Status& why) { lost_.emplace_back(why.message()); },
        .on_stood_still =
            [this](const Worker& worker, absl::Time since) {
              lost_.push_back(worker.target.address + " stands still");
              stood_since_ = since;
            },
        .on_up = [this](
                     const WorkerTarget& target,
                     bool up) { told_.push_back(target.address + (up ? " is up" : " is down")); },
        .on_quarantine =
            [this](const WorkerTarget& target, bool quarantined) {
              told_.push_back(target.address + (quarantined ? " is wrong" : " is right"));
            },
        .on_pages = nullptr,
        .on_gone =
            [this](const WorkerTarget& target) { told_.push_back(target.address + " is gone"); }};
  }
  void RunFor(absl::Duration duration) {
    bool over = false;
    queue_.After(absl::ToInt64Microseconds(duration), [&over] { over = true; });
    while (!over) queue_.RunNext();
  }

  // Returns the lines about the address that the log gets meanwhile.
  std::vector<std::string> LinesAbout(const std::string& address, absl::Duration duration) {
    testing::internal::CaptureStderr();
    RunFor(duration);
    const std::string log = testing::internal::GetCapturedStderr();
    std::vector<std::string> lines;
    for (const absl::string_view line : absl::StrSplit(log, '\n')) {
      if (absl::StrContains(line, address)) lines.emplace_back(line);
    }
    return lines;
  }

  EventQueue queue_;
  VirtualLoop loop_{queue_};
  Fleet fleet_{loop_};
  FleetView view_;
  PlayedWatches watches_{queue_};
  std::vector<std::string> told_, lost_;  // what the registry reports
  absl::Time stood_since_ = absl::InfinitePast();
  WorkerRegistry registry_{loop_, fleet_, view_, Options()};
};

// A registry that looks for a prefill worker and a decode worker.
class PairRegistryFixture : public RegistryFixture {
 protected:
  PairRegistryFixture() {
    registry_.SetTargets({{internal::v1::WORKER_ROLE_PREFILL, kPrefillAddress},
                          {internal::v1::WORKER_ROLE_DECODE, kDecodeAddress}});
  }
  void Introduce() {
    watches_.Say(kPrefillAddress, Introduction(internal::v1::WORKER_ROLE_PREFILL));
    watches_.Say(kDecodeAddress, Introduction(internal::v1::WORKER_ROLE_DECODE));
  }
};

}  // namespace baton
