#include "bench/transfer/transfer_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

TransferSample Sample(double gb_s, double cpu_s_per_gb) {
  return {.bytes = 2'000'000'000, .seconds = 2 / gb_s, .cpu_seconds = 2 * cpu_s_per_gb};
}

TransferReport MakeTransferReport() {
  return {.cpu = "CPU",
          .shape = "llama-3.1-8b",
          .bytes = size_t{512} << 20,
          .push = {.gb_s = 4, .cpu_s_per_gb = 0.4},
          .socket = {.gb_s = 5, .cpu_s_per_gb = 0.3},
          .protobuf = {.gb_s = 2, .cpu_s_per_gb = 0.7},
          .crc_share = 0.05,
          .sweep = {{.bytes = 1 << 20,
                     .push = {.gb_s = 3, .cpu_s_per_gb = 0.5},
                     .socket = {.gb_s = 5.1, .cpu_s_per_gb = 0.31}},
                    {.bytes = 2 << 20,
                     .push = {.gb_s = 3.9, .cpu_s_per_gb = 0.41},
                     .socket = {.gb_s = 6, .cpu_s_per_gb = 0.25}},
                    {.bytes = 4 << 20,
                     .connections = 2,
                     .push = {.gb_s = 3.8, .cpu_s_per_gb = 0.42},
                     .socket = {.gb_s = 5.5, .cpu_s_per_gb = 0.26}}}};
}

TEST(TransferSample, CountsTenToTheNineAsAGigabyte) {
  const TransferSample sample{.bytes = 500'000'000, .seconds = 0.25, .cpu_seconds = 0.1};
  EXPECT_DOUBLE_EQ(sample.GigabytesPerSecond(), 2);
  EXPECT_DOUBLE_EQ(sample.CpuSecondsPerGigabyte(), 0.2);
}

TEST(TransferFigure, IsTheMedianOfRateAndOfCpuEachForItself) {
  const TransferFigure odd = MedianOf({Sample(1, 0.9), Sample(9, 0.1), Sample(2, 0.5)});
  EXPECT_NEAR(odd.gb_s, 2, 1e-9);
  EXPECT_NEAR(odd.cpu_s_per_gb, 0.5, 1e-9);
  const TransferFigure even = MedianOf({Sample(4, 0.2), Sample(2, 0.4)});
  EXPECT_NEAR(even.gb_s, 3, 1e-9);
  EXPECT_NEAR(even.cpu_s_per_gb, 0.3, 1e-9);
}

TEST(CheckShare, ComparesOnlyPairsThatWereTakenTogether) {
  // The machine was twice as fast for the second pair, which says nothing about the checks.
  const std::vector<TransferSample> checked = {Sample(1.9, 0.5), Sample(3.8, 0.5),
                                               Sample(1.8, 0.5)};
  const std::vector<TransferSample> unchecked = {Sample(2, 0.5), Sample(4, 0.5), Sample(2, 0.5)};
  EXPECT_NEAR(CheckShare(checked, unchecked), 0.05, 1e-9);
}

TEST(FormatJson, HasExactlyTheAgreedFields) {
  const auto json = nlohmann::ordered_json::parse(FormatJson(MakeTransferReport()));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"grpc_gb_s", "socket_gb_s", "socket_best_gb_s",
                                             "protobuf_bytes_gb_s", "grpc_cpu_s_per_gb",
                                             "socket_cpu_s_per_gb", "crc_share", "sweep"}));
  EXPECT_DOUBLE_EQ(json["grpc_gb_s"], 4);
  EXPECT_DOUBLE_EQ(json["socket_gb_s"], 5);
  EXPECT_DOUBLE_EQ(json["socket_best_gb_s"], 6);
  EXPECT_DOUBLE_EQ(json["protobuf_bytes_gb_s"], 2);
  EXPECT_DOUBLE_EQ(json["grpc_cpu_s_per_gb"], 0.4);
  EXPECT_DOUBLE_EQ(json["socket_cpu_s_per_gb"], 0.3);
  EXPECT_DOUBLE_EQ(json["crc_share"], 0.05);
  ASSERT_EQ(json["sweep"].size(), 3u);
  EXPECT_EQ(json["sweep"][1]["bytes"], 2 << 20);
  EXPECT_EQ(json["sweep"][1]["connections"], 1);
  EXPECT_EQ(json["sweep"][2]["connections"], 2);
  EXPECT_DOUBLE_EQ(json["sweep"][1]["grpc_gb_s"], 3.9);
  EXPECT_DOUBLE_EQ(json["sweep"][1]["grpc_cpu_s_per_gb"], 0.41);
  EXPECT_DOUBLE_EQ(json["sweep"][1]["socket_gb_s"], 6);
  EXPECT_DOUBLE_EQ(json["sweep"][1]["socket_cpu_s_per_gb"], 0.25);
}

TEST(FormatJson, TellsNoShareOfTheChecksThatWasNotMeasured) {
  TransferReport report = MakeTransferReport();
  report.crc_share.reset();
  EXPECT_FALSE(nlohmann::json::parse(FormatJson(report)).contains("crc_share"));
  EXPECT_EQ(FormatTable(report).find("CRC"), std::string::npos);
}

TEST(TransferReport, NamesTheTypeOnTheWireWhereOneWasAskedFor) {
  TransferReport report = MakeTransferReport();
  EXPECT_EQ(FormatTable(report).find("pushed as"), std::string::npos);
  report.kv_wire_dtype = "int8";
  EXPECT_EQ(nlohmann::json::parse(FormatJson(report))["kv_wire_dtype"], "int8");
  EXPECT_NE(FormatTable(report).find("pushed as int8"), std::string::npos);
}

TEST(FormatTable, HasALineForEachWay) {
  const std::string table = FormatTable(MakeTransferReport());
  for (const char* part : {"512.0 MiB", "llama-3.1-8b", "| push, checked ", "4.00 |", "0.80 |",
                           "| protobuf bytes field ", "| socket, calls of 2 MiB ", "5.0 %"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(EncodeSamples, IsReadBack) {
  const std::vector<TransferSample> samples = {Sample(2, 0.5), Sample(3, 0.25)};
  const auto read = DecodeSamples(EncodeSamples(samples));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[1].bytes, samples[1].bytes);
  EXPECT_NEAR((*read)[1].seconds, samples[1].seconds, 1e-6);
  EXPECT_NEAR((*read)[1].cpu_seconds, samples[1].cpu_seconds, 1e-6);
  for (const char* line : {"1 2;", "x 1 1;", "1 1 1 1;", "1 1 z;"}) {
    EXPECT_FALSE(DecodeSamples(line).ok()) << line;
  }
}

}  // namespace
}  // namespace baton
