// Writes a model's identity in words, and compares two.
#pragma once

#include <string>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// All fields, spelled out for an error message; digests are in hexadecimal.
std::string IdentityText(const internal::v1::ModelIdentity& identity);
bool SameIdentity(const internal::v1::ModelIdentity& a, const internal::v1::ModelIdentity& b);

}  // namespace baton
