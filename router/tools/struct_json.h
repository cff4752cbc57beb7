// google.protobuf.Struct as JSON.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <nlohmann/json.hpp>

namespace baton {

// An object with its keys in ascending order, since those of a Struct have none. Whole numbers that
// a double holds exactly become integers: a Struct knows no others.
nlohmann::ordered_json JsonOf(const google::protobuf::Struct& fields);

}  // namespace baton
