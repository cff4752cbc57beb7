// The products of models of 1, 8 and 70 billion weights, and an H200, which their launches are to
// fill.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/backend/cuda/product/product_operands.h"
#include "common/backend/cuda/weight/weight_layout.h"

namespace baton {

inline constexpr DeviceLimits kH200 = {.multiprocessors = 132, .shared_bytes = 227 * 1024};
// By Little's law memory is read at its rate while as many bytes are asked for as come in the time
// of one request. An H200 gives 4.3 TB/s (copied), after about 1,000 ns under load: that is 33 KB on
// each multiprocessor. Units are whole, so that some launches have a little less.
inline constexpr double kMemoryBytesPerNs = 4300;
inline constexpr double kMemoryLatencyNs = 1000;
inline constexpr double kBytesInFlight =
    0.95 * kMemoryBytesPerNs * kMemoryLatencyNs / kH200.multiprocessors;

// Rows of the steps that are looked at: of one sequence to those of a full batch.
inline constexpr int kStepRows[] = {1, 2, 4, 8, 16, 32, 64};

// Blocks of a launch that take equally long, as many at a time as there are places for.
struct Waves {
  int blocks;
  int places;          // on the whole device
  double block_bytes;  // bytes that a block has in flight

  double InFlight(int running) const { return running * block_bytes / kH200.multiprocessors; }
  // What is in flight on each multiprocessor as the launch begins.
  double BytesInFlight() const { return InFlight(std::min(blocks, places)); }
  // The share of the time in which places have a block: the last wave leaves some empty.
  double BusyShare() const {
    const int waves = (blocks + places - 1) / places;
    return static_cast<double>(blocks) / (static_cast<double>(waves) * places);
  }
  // The memory's rate while the launch runs, as a share of the whole one. In the last wave fewer
  // bytes are in flight.
  double MemoryShare() const {
    const auto time = [this](int running) {
      return running == 0 ? 0 : running / std::min(1.0, InFlight(running) / kBytesInFlight);
    };
    return blocks / (blocks / places * time(places) + time(blocks % places));
  }
};

struct Product {
  std::string name;
  std::vector<int> outputs;  // rows of each weight
  int columns;

  // The bytes of all elements, or codes.
  double WeightBytes(CudaElement element) const {
    const double all = std::accumulate(outputs.begin(), outputs.end(), 0.0);
    return all * columns * 16 / ChunkColumns(element);
  }
  // The bytes that must be in flight on each multiprocessor: those that keep the memory busy, or all.
  double BytesWanted(CudaElement element) const {
    return std::min(kBytesInFlight, 0.99 * WeightBytes(element) / kH200.multiprocessors);
  }
};

struct Model {
  std::string name;
  int hidden;
  int feed_forward;
  int kv_columns;
  int vocabulary;

  std::vector<Product> Products() const {
    return {{"qkv", {hidden, kv_columns, kv_columns}, hidden},
            {"output", {hidden}, hidden},
            {"gate up", {feed_forward, feed_forward}, hidden},
            {"down", {hidden}, feed_forward},
            {"logits", {vocabulary}, hidden}};
  }
};

inline const std::vector<Model>& Models() {
  static const auto& models = *new std::vector<Model>{{"1B", 2048, 8192, 512, 128256},
                                                      {"8B", 4096, 14336, 1024, 128256},
                                                      {"70B", 8192, 28672, 1024, 128256}};
  return models;
}

using Names = std::vector<std::string>;

// The products that have the property, "8B down" for instance.
template <class Property>
Names ThoseOf(const Property& property) {
  Names names;
  for (const Model& model : Models()) {
    for (const Product& product : model.Products()) {
      if (property(product)) names.push_back(model.name + " " + product.name);
    }
  }
  return names;
}

}  // namespace baton
