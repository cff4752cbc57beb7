// The products of models of 1, 8 and 70 billion weights, and an H200, which their launches are to
// fill.
#pragma once

#include <string>
#include <vector>

#include "common/backend/cuda/product/vector_product.h"

namespace baton {

inline constexpr DeviceLimits kH200 = {.multiprocessors = 132, .shared_bytes = 227 * 1024};
// vector_product.h says that 33 KB must be in flight on each multiprocessor. Units are whole, so
// that some launches have a little less.
inline constexpr double kBytesInFlight = 31e3;

struct Product {
  std::string name;
  std::vector<int> outputs;  // rows of each weight
  int columns;
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
